-- Delete grants that ended long ago, the stalled partitions of their workers, and backoffs that ended long ago.
-- returns: zero
-- roles: upkeep
-- index: none
-- locks: credit, stalled_partition and partition_backoff rows (for update)
with ended as (
  delete from ledger.partition_backoff b where b.available_at < ledger.now() - interval '10 minutes'
),
gone as (
  delete from ledger.stalled_partition s
  where s.stalled_at < ledger.machine_now() - interval '10 minutes'
    and not exists (select from ledger.credit c where c.worker_no = s.worker_no and c.granted_until > ledger.machine_now())
)
delete from ledger.credit c where c.granted_until < ledger.machine_now() - interval '10 minutes'
