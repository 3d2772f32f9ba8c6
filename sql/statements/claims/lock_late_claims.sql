-- Lock claims past their deadline, until the transaction ends.
-- returns: zero or more
-- roles: reconciler, upkeep
-- $1 limit integer
-- index: claim_deadline_idx
-- locks: claim rows (for update, skip locked)
select c.fence, c.claimed_at
from ledger.claim c
where c.closed_at is null and c.deadline < ledger.machine_now()
order by c.deadline
limit $1::integer
for update skip locked
