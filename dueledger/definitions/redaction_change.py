"""Which fields of payloads kinds redact, as definitions change: kept, added, or dropped."""

from collections.abc import Mapping, Sequence

from dueledger.ledger.definitions.parsing import Definition
from dueledger.ledger.errors import NotPermitted
from dueledger.ledger.rules.redaction import dropped_fields
from dueledger.ledger.store import Connection
from dueledger.ledger.store.audit import AuditTarget, record_audit
from dueledger.ledger.store.kinds import KindPolicy, PutPolicy, find_redacted_fields

FieldsByKind = Mapping[tuple[str, str], Sequence[str]]
"""By tenant and kind, of those that redact any."""


async def add_kept_fields(
    connection: Connection, definitions: Sequence[Definition]
) -> list[Definition]:
    """Return definitions with the fields that their kinds redact, where they do not say them."""
    silent = {(one.tenant, one.kind) for one in definitions if one.redacted_fields is None}
    found = await find_redacted_fields(connection, silent) if silent else {}
    return [
        one.with_redacted_fields(fields)
        if one.redacted_fields is None and (fields := found.get((one.tenant, one.kind)))
        else one
        for one in definitions
    ]


async def change_redaction(
    connection: Connection,
    policy: KindPolicy,
    put: PutPolicy,
    *,
    actor_no: int,
    may_drop: bool,
) -> None:
    """Check and record which fields a kind redacts, and which before, if these changed.

    Raises NotPermitted if it drops some and who defines it may not.
    """
    if policy.redacted_fields is None:
        return
    before, after = put.redacted_before, list(policy.redacted_fields)
    dropped = dropped_fields(before, after)
    if dropped and not may_drop:
        raise NotPermitted(
            f"The kind {policy.tenant}/{policy.kind} would no longer redact {', '.join(dropped)}. "
            "That needs the scope approve, too. Leave out `redacted_fields` to keep them.",
            scope="approve",
        )
    if after != before:
        detail = {"redacted_fields": after, "before": {"redacted_fields": before}}
        target = AuditTarget(f"kinds/{policy.tenant}/{policy.kind}", [policy.tenant], detail)
        await record_audit(connection, actor_no, "putDefinition", [target])


def describe_redaction(
    silent: Sequence[Definition], before: FieldsByKind, after: FieldsByKind
) -> list[str]:
    """Return which fields stay redacted that definitions do not say, and which do not stay."""
    kept = {(one.tenant, one.kind) for one in silent if one.redacted_fields is None} & after.keys()
    sentences = [
        f"{tenant}/{kind}: redacted fields stay: {', '.join(after[tenant, kind])}"
        for tenant, kind in sorted(kept)
    ]
    for (tenant, kind), fields in sorted(before.items()):
        if dropped := dropped_fields(fields, after.get((tenant, kind), ())):
            sentences.append(
                f"{tenant}/{kind}: no longer redacted, of items of the past, too: "
                + ", ".join(dropped)
            )
    return sentences
