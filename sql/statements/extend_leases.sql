-- Extend the leases of open runs of this worker; a run that is not answered is no longer held.
-- returns: zero or more
-- $1 run_nos bigint[]
-- $2 worker_no integer
-- $3 lease_seconds double precision
-- index: run_pkey
-- locks: run rows (for update, in the order given)
update ledger.run r
set lease_until = ledger.machine_now() + make_interval(secs => $3::double precision)
from unnest($1::bigint[]) u (run_no)
where r.run_no = u.run_no and r.worker_no = $2::integer and r.closed_at is null
returning r.run_no
