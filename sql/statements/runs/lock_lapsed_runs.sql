-- Lock runs past their lease, all of a worker's together, until the transaction ends.
-- returns: zero or more
-- roles: reconciler, upkeep
-- $1 limit integer
-- index: run_lease_idx
-- locks: lock_row, one reaper at a time (skip locked); run rows (for update, skip locked)
with late as materialized (
  select r.worker_no
  from ledger.run r
  where r.closed_at is null and r.lease_until < ledger.machine_now()
    and (r.run_until > ledger.machine_now()) is not false
    -- The leases of a dead worker lapse within one heartbeat, a third of a lease; its runs are judged together.
    and not exists (
      select from ledger.run o
      where o.closed_at is null and o.worker_no = r.worker_no and o.lease_until >= ledger.machine_now()
        and o.lease_until < r.lease_until + make_interval(secs => r.lease_seconds / 2))
  order by r.lease_until
  limit $1::integer
)
select r.run_no, r.started_at, r.claimed_at
from ledger.run r
where r.closed_at is null and r.lease_until < ledger.machine_now()
  -- A run past its hard end waits for no other: its worker may live, and always has leases that end soon.
  and (r.run_until <= ledger.machine_now() or r.worker_no in (select l.worker_no from late l))
  -- One reaper at a time: two would each see half of a worker's runs.
  and exists (select from ledger.try_lock_rows('reap_runs', array['']))
order by r.lease_until
limit 100000
for update skip locked
