-- End the leases of processes whose lock has been missing for four seconds, where the lock decides.
-- returns: zero or more
-- roles: upkeep
-- $1 process_nos bigint[]
-- $2 limit integer
-- index: run_lease_idx
-- locks: run rows (for update, skip locked)
with dead as materialized (
  select p.process_no, p.unlocked_at
  from ledger.process p
  join ledger.process_status s on s.process_no = p.process_no
  where p.process_no = any ($1::bigint[]) and p.yields and s.status = 'gone'
    and p.locked_on = pg_postmaster_start_time() and p.unlocked_at <= ledger.machine_now() - interval '4 seconds'
),
open as materialized (
  select r.run_no, r.started_at
  from ledger.run r
  join dead d on d.process_no = r.worker_no
  where r.closed_at is null and r.lease_until > ledger.machine_now()
    -- A lease from after the loss is of a worker that lives, and knows that it has no lock.
    and r.lease_until <= d.unlocked_at + make_interval(secs => r.lease_seconds)
  order by r.lease_until
  limit $2::integer
  for update of r skip locked
)
update ledger.run r
set lease_until = ledger.machine_now()
from open o
where r.run_no = o.run_no and r.started_at = o.started_at and r.closed_at is null
returning r.run_no
