-- List open runs that reach beyond the end of their claim, up to a limit.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 limit integer
-- index: run_lease_idx, claim_pkey
-- locks: none
select r.run_no, r.fence, r.to_position, c.size
from ledger.run r join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
where r.closed_at is null and r.to_position > c.size
order by r.run_no
limit $1::integer
