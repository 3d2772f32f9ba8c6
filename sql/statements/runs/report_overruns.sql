-- Record for runs at their hard end which items their handlers had then: these are blamed when the run is reaped.
-- returns: zero
-- roles: worker
-- $1 run_nos bigint[]
-- $2 started_ats timestamptz[]
-- $3 in_calls bit varying[]
-- $4 worker_no bigint
-- $5 first_started_at timestamptz
-- $6 last_started_at timestamptz
-- index: run_pkey
-- locks: run rows (for update, run_no ascending)
with asked as materialized (
  select * from unnest($1::bigint[], $2::timestamptz[], $3::bit varying[]) a (run_no, started_at, in_call) order by a.run_no
)
update ledger.run r
set overran = a.in_call
from asked a
where r.run_no = a.run_no and r.started_at is not distinct from a.started_at and r.started_at between $5::timestamptz and $6::timestamptz
  and r.worker_no = $4::bigint and r.closed_at is null
  -- A lease that ends before the hard end was not extended: the handlers were stopped for that.
  and r.lease_until >= r.run_until
