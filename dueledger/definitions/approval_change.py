"""When operations on items of a kind wait for a second person, as definitions change."""

from dueledger.ledger.errors import NotPermitted
from dueledger.ledger.store.kinds import KindPolicy, PutPolicy


def check_approval(policy: KindPolicy, put: PutPolicy, *, may_loosen: bool) -> None:
    """Check that a kind asks as often for a second person as before.

    Raises NotPermitted if it asks less often and who defines it may not loosen that.
    """
    before, after = put.approval_above_before, policy.operation_approval_above
    if before is None or may_loosen or (after is not None and after <= before):
        return
    raise NotPermitted(
        f"Operations on items of {policy.tenant}/{policy.kind} would wait less often for a second "
        f"person. That needs the scope approve, too. `operations: {{approval_above: {before}}}` "
        "keeps it.",
        scope="approve",
    )
