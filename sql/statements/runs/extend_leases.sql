-- Extend the leases of open runs of this worker; a run whose settlement is being committed keeps its lease, and no lease goes beyond the hard end.
-- returns: zero or more, one a run that is still open
-- $1 run_nos bigint[]
-- $2 worker_no integer
-- $3 lease_seconds double precision
-- index: run_pkey
-- locks: run rows (for update, run_no ascending, skip locked)
with asked as materialized (
  select u.run_no from unnest($1::bigint[]) u (run_no) order by u.run_no
),
free as materialized (
  select r.run_no, r.started_at
  from asked a join ledger.run r on r.run_no = a.run_no
  where r.worker_no = $2::integer and r.closed_at is null
  for update of r skip locked
),
extended as (
  update ledger.run r
  set lease_until = least(ledger.machine_now() + make_interval(secs => $3::double precision), r.run_until),
    lease_seconds = $3::double precision, extended_at = ledger.machine_now()
  from free f
  where r.run_no = f.run_no and r.started_at = f.started_at and r.closed_at is null
  returning r.run_no, r.lease_until
)
select e.run_no, extract(epoch from e.lease_until - ledger.machine_now())::double precision as seconds
from extended e
union all
select r.run_no, null
from asked a
join ledger.run r on r.run_no = a.run_no and r.worker_no = $2::integer and r.closed_at is null
where (select count(*) from extended) < (select count(*) from asked)
  and not exists (select from extended e where e.run_no = r.run_no)
