-- Extend the leases of open runs of this worker; a run whose settlement is being committed keeps its lease, and no lease goes beyond the hard end.
-- returns: zero or more, one a run that is still open
-- roles: outcome_intake, pull_worker, worker
-- $1 run_nos bigint[]
-- $2 started_ats timestamptz[]
-- $3 worker_no bigint
-- $4 lease_seconds double precision
-- $5 first_started_at timestamptz
-- $6 last_started_at timestamptz
-- index: run_pkey
-- locks: run rows (for update, run_no ascending, skip locked)
with asked as materialized (
  select * from unnest($1::bigint[], $2::timestamptz[]) u (run_no, started_at) order by u.run_no
),
free as materialized (
  select r.run_no, r.started_at
  from asked a
  join ledger.run r on r.run_no = a.run_no and r.started_at is not distinct from a.started_at
    and r.started_at between $5::timestamptz and $6::timestamptz
  where r.worker_no = $3::bigint and r.closed_at is null
  for update of r skip locked
),
extended as (
  update ledger.run r
  set lease_until = least(ledger.machine_now() + make_interval(secs => $4::double precision), r.run_until),
    lease_seconds = $4::double precision, extended_at = ledger.machine_now()
  from free f
  where r.run_no = f.run_no and r.started_at is not distinct from f.started_at and r.started_at between $5::timestamptz and $6::timestamptz
    and r.closed_at is null
  returning r.run_no, r.lease_until
)
select e.run_no, extract(epoch from e.lease_until - ledger.machine_now())::double precision as seconds
from extended e
union all
select a.run_no, null
from asked a
cross join lateral ledger.find_run(a.run_no, a.started_at) r
where (select count(*) from extended) < (select count(*) from asked)
  and not exists (select from extended e where e.run_no = a.run_no)
  and r.worker_no = $3::bigint and r.closed_at is null
