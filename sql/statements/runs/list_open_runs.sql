-- List the open runs of a worker, the latest first, with a bit set for each item that has ended.
-- returns: zero or more
-- roles: worker
-- $1 worker_no bigint
-- index: run_lease_idx
-- locks: none
select r.run_no, r.started_at, r.claimed_at, r.ended
from ledger.run r
where r.closed_at is null and r.lease_until > '-infinity' and r.worker_no = $1::bigint
order by r.lease_until desc
limit 10000
