"""Renews policies when they are due: `dueledger work dueledger.examples.insurer.handlers:handlers`.

The renewal and its premium are written in the transaction that completes the item, so none of
ever there without the other two, and a renewal never happens twice (G6).
"""

from typing import Final

from dueledger import Completed, Connection, DueItem, Handlers, NotDue, Verdict

handlers = Handlers()

# A policy with the fault `premium_not_booked` is renewed without its premium: an intended defect,
# that only a check of the bookings can find.
_RENEW: Final = """
with renewal as (
  insert into insurer.renewal_issued (policy_number, term, due_item, premium)
  select policy_number, $2, $3, premium from insurer.policy
  where policy_number = $1 and status = 'active'
  returning policy_number, term, due_item, premium
), booking as (
  insert into insurer.premium_booked (policy_number, term, due_item, amount, booked_by)
  select r.policy_number, r.term, r.due_item, r.premium, 'renewal' from renewal r
  where not exists (
    select from insurer.fault f
    where f.policy_number = r.policy_number and f.fault = 'premium_not_booked'
  )
)
select premium from renewal
"""


@handlers.on_transaction("PolicyRenewalDue")
async def renew(item: DueItem, connection: Connection) -> Verdict:
    """Issue the renewal of one policy for one term."""
    premium = await connection.fetchval(_RENEW, item.business_key, item.cycle, item.id)
    if premium is None:
        return NotDue("the policy is no longer active")
    return Completed({"renewal": f"{item.business_key}/{item.cycle}", "premium": str(premium)})
