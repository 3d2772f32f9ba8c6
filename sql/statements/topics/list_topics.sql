-- List the topics of kinds with the items that lie in each and what its consumers do, those with the most items first.
-- returns: zero or more
-- roles: auditor
-- $1 limit integer
-- index: claim_deadline_idx, credit_pkey
-- locks: none
with waiting as materialized (
  select c.topic, sum(c.size - c.started)::bigint as items, min(c.claimed_at) as oldest_at
  from ledger.claim c
  where c.closed_at is null and c.deadline > '-infinity' and c.topic_actor_no is null
  group by c.topic
)
select t.topic, t.kinds, t.dispatch, coalesce(w.items, 0) as items, w.oldest_at, g.workers, g.granted,
  (select s.since from ledger.silent_topic s where s.topic = t.topic) as silent_since, s.partitions as stalled_partitions,
  s.stalled_at, (
    select p.unavailable_topics ->> t.topic from ledger.process_status p
    where p.status = 'live' and p.unavailable_topics ? t.topic limit 1) as unavailable
from (
  select k.topic, count(*)::integer as kinds, string_agg(distinct k.dispatch, ', ') as dispatch
  from ledger.kind k where k.dispatch <> 'direct' group by k.topic
) t
left join waiting w on w.topic = t.topic
cross join lateral (
  select count(*)::integer as workers, coalesce(sum(g.items), 0)::bigint as granted
  from ledger.credit g where g.topic = t.topic and g.granted_until > ledger.machine_now()
) g
cross join lateral (
  select count(*)::integer as partitions, min(s.stalled_at) as stalled_at
  from ledger.stalled_partition s where s.topic = t.topic
) s
order by w.items desc nulls last, t.topic
limit $1::integer
