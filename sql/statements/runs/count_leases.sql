-- Count the leases that processes hold, of those that end first, at most so many.
-- returns: zero or more
-- roles: auditor
-- $1 examined_max integer
-- index: run_lease_idx
-- locks: none
with open as materialized (
  select r.worker_no, r.lease_until
  from ledger.run r
  where r.closed_at is null and r.lease_until > '-infinity'
  order by r.lease_until limit $1::integer
)
select o.worker_no as process_no, count(*)::integer as leases,
  (select count(*) from open) >= $1::integer as leases_capped
from open o
group by o.worker_no
