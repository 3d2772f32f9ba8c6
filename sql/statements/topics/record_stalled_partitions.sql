-- Record the stalled partitions of a worker; delete those of its that are stalled no more.
-- returns: zero
-- roles: worker
-- $1 worker_no bigint
-- $2 topics text[]
-- $3 partitions integer[]
-- $4 next_offsets bigint[]
-- $5 waits_for_handlers boolean[]
-- $6 stalled_seconds double precision[]
-- index: stalled_partition_worker_idx, stalled_partition_pkey
-- locks: stalled_partition rows of this worker
with gone as (
  delete from ledger.stalled_partition s
  where s.worker_no = $1::bigint
    and (s.topic, s.partition) not in (select u.topic, u.partition from unnest($2::text[], $3::integer[]) u (topic, partition))
)
insert into ledger.stalled_partition (topic, partition, worker_no, next_offset, waits_for_handlers, stalled_at)
select u.topic, u.partition, $1::bigint, u.next_offset, u.waits_for_handlers,
  ledger.machine_now() - make_interval(secs => u.stalled_seconds)
from unnest($2::text[], $3::integer[], $4::bigint[], $5::boolean[], $6::double precision[])
  u (topic, partition, next_offset, waits_for_handlers, stalled_seconds)
order by u.topic, u.partition
on conflict (topic, partition, worker_no) do nothing
