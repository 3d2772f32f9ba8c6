-- Read for each topic how many items its live workers grant, for how long all of them do, and how many are outstanding; suspects, which wait beside the others, by themselves.
-- returns: exactly one per input
-- roles: allocator, worker
-- $1 topics text[]
-- index: credit_pkey, claim_deadline_idx
-- locks: none
with waiting as materialized (
  select c.topic, sum(c.size - c.started) filter (where c.batch_max is null) as items,
    sum(c.size - c.started) filter (where c.batch_max is not null) as suspects
  from ledger.claim c
  where c.closed_at is null and c.deadline > '-infinity' and c.topic_actor_no is null
  group by c.topic
)
select u.topic, g.workers, g.granted, g.seconds, coalesce(w.items, 0)::bigint as outstanding, coalesce(w.suspects, 0)::bigint as suspects
from unnest($1::text[]) with ordinality u (topic, ord)
left join waiting w on w.topic = u.topic
cross join lateral (
  select count(*) as workers, coalesce(sum(g.items), 0)::bigint as granted,
    extract(epoch from min(g.granted_until) - ledger.machine_now())::double precision as seconds
  from ledger.credit g
  where g.topic = u.topic and g.granted_until > ledger.machine_now()
) g
order by u.ord
