-- Lock runs past their lease, all of a worker's together or of those the named ones, until the transaction ends; say how many open items its worker lost.
-- returns: zero or more
-- roles: reconciler, upkeep
-- $1 limit integer
-- $2 run_nos bigint[]
-- index: run_lease_idx
-- locks: lock_row, one reaper at a time (skip locked); run rows (for update, skip locked)
with late as materialized (
  select r.worker_no
  from ledger.run r
  where r.closed_at is null and r.lease_until < ledger.machine_now()
    and (r.run_until > ledger.machine_now()) is not false
    and ($2::bigint[] is null or r.run_no = any ($2::bigint[]))
    -- The leases of a dead worker lapse within one heartbeat, a third of a lease; its runs are judged together.
    and not exists (
      select from ledger.run o
      where o.closed_at is null and o.worker_no = r.worker_no and o.lease_until >= ledger.machine_now()
        and o.lease_until < r.lease_until + make_interval(secs => r.lease_seconds / 2))
  order by r.lease_until
  limit $1::integer
),
-- Also of runs that are not locked now: an item is not alone in its worker because its run is released alone.
worker as materialized (
  select r.worker_no, sum(bit_length(r.ended) - bit_count(r.ended)) as lost_count
  from ledger.run r
  where r.closed_at is null and r.lease_until < ledger.machine_now()
  group by r.worker_no
)
select r.run_no, r.started_at, r.claimed_at, w.lost_count
from ledger.run r
join worker w on w.worker_no = r.worker_no
where r.closed_at is null and r.lease_until < ledger.machine_now()
  and ($2::bigint[] is null or r.run_no = any ($2::bigint[]))
  -- A run past its hard end waits for no other: its worker may live, and always has leases that end soon.
  and (r.run_until <= ledger.machine_now() or r.worker_no in (select l.worker_no from late l))
  -- One reaper at a time: two would each see half of a worker's runs.
  and exists (select from ledger.try_lock_rows('reap_runs', array['']))
order by r.lease_until
limit 100000
for update of r skip locked
