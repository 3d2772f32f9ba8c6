-- Lock claims past their deadline, all or the named ones, until the transaction ends.
-- returns: zero or more
-- roles: reconciler, upkeep
-- $1 limit integer
-- $2 fences bigint[]
-- index: claim_deadline_idx
-- locks: claim rows (for update, skip locked)
select c.fence, c.claimed_at
from ledger.claim c
where c.closed_at is null and c.deadline < ledger.machine_now()
  and ($2::bigint[] is null or c.fence = any ($2::bigint[]))
order by c.deadline
limit $1::integer
for update skip locked
