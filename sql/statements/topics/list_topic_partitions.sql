-- List the partitions of a topic in which items lie that were not started, or with which its consumers get no further, the most items first.
-- returns: zero or more
-- roles: auditor
-- $1 topic text
-- $2 limit integer
-- index: claim_deadline_idx, stalled_partition_pkey, partition_backoff_pkey
-- locks: none
with lag as materialized (
  select c.partition, sum(c.size - c.started)::bigint as items, min(c.claimed_at) as oldest_at,
    min(c.base_offset + c.started) filter (where c.started < c.size) as next_offset, max(c.base_offset + c.size) as end_offset
  from ledger.claim c
  where c.closed_at is null and c.deadline > '-infinity' and c.topic = $1::text and c.topic_actor_no is null
  group by c.partition
),
stalled as materialized (
  select s.partition, min(s.stalled_at) as stalled_at from ledger.stalled_partition s where s.topic = $1::text group by s.partition
),
backing_off as materialized (
  select b.partition, b.expirations, b.available_at from ledger.partition_backoff b
  where b.topic = $1::text and b.available_at > ledger.now()
)
select p.partition, coalesce(l.items, 0) as items, l.oldest_at, l.next_offset, l.end_offset, s.stalled_at,
  b.expirations, b.available_at as backs_off_until
from (
  select l.partition from lag l union select s.partition from stalled s union select b.partition from backing_off b
) p
left join lag l on l.partition = p.partition
left join stalled s on s.partition = p.partition
left join backing_off b on b.partition = p.partition
order by l.items desc nulls last, p.partition
limit $2::integer
