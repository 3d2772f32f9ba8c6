-- Read of each role how many of its processes live, are silent and are gone since an hour, and what those report that live.
-- returns: zero or more
-- roles: auditor, operator
-- index: none
-- locks: none
-- A role fails if each of its live processes does; then the one that has failed longest is named. A topic is unavailable if it
-- is to each of them. A kind has tenants where each of them takes the items of some tenants alone. A process that lost its
-- connection takes its lock again within a second or two, and its row may be 6 s
-- old: until then it counts as live.
with processes as materialized (
  select s.process_no, s.name, s.role, s.host, s.seen_at, s.kinds, s.kind_tenants, s.does_upkeep, s.failing_since, s.failure, s.failed_service,
    s.unavailable_topics,
    case when s.status = 'gone' and s.seen_at > ledger.machine_now() - interval '8 seconds' then 'live' else s.status end as status
  from ledger.process_status s
)
select r.role, r.live, r.silent, r.gone, r.failing, r.upkeep, last.name as last_name, last.host as last_host, last.seen_at, mute.name as silent_name,
  mute.host as silent_host, mute.seen_at as silent_since, failed.name as failing_name, failed.failing_since, failed.failure,
  failed.failed_service, coalesce(served.kinds, '{}') as kinds,
  coalesce(limited.tenants, '{}') as kind_tenants, coalesce(lacked.topics, '{}') as unavailable_topics
from (
  select s.role, count(*) filter (where s.status = 'live') as live, count(*) filter (where s.status = 'silent') as silent,
    count(*) filter (where s.status = 'gone' and s.seen_at > ledger.machine_now() - interval '1 hour') as gone,
    count(*) filter (where s.status = 'live' and s.failing_since is not null) as failing,
    count(*) filter (where s.status = 'live' and s.does_upkeep) as upkeep
  from processes s
  group by s.role
) r
left join lateral (
  select s.name, s.host, s.seen_at from processes s where s.role = r.role order by s.seen_at desc limit 1
) last on true
left join lateral (
  select s.name, s.host, s.seen_at from processes s
  where s.role = r.role and s.status = 'silent' order by s.seen_at desc limit 1
) mute on true
left join lateral (
  select s.name, s.failing_since, s.failure, s.failed_service from processes s
  where s.role = r.role and s.status = 'live' and s.failing_since is not null order by s.failing_since limit 1
) failed on true
left join lateral (
  select array_agg(distinct u.kind) as kinds
  from processes s cross join lateral unnest(s.kinds) u (kind)
  where s.role = r.role and s.status = 'live'
) served on true
left join lateral (
  select jsonb_object_agg(k.kind, k.tenants) as tenants
  from (
    select u.kind, jsonb_agg(distinct t.tenant) filter (where t.tenant is not null) as tenants
    from processes s
    cross join lateral unnest(s.kinds) u (kind)
    left join lateral jsonb_array_elements_text(s.kind_tenants -> u.kind) t (tenant) on true
    where s.role = r.role and s.status = 'live'
    group by u.kind
    having bool_and(coalesce(s.kind_tenants ? u.kind, false))
  ) k
) limited on true
left join lateral (
  select jsonb_object_agg(u.topic, u.reason) as topics
  from (
    select u.topic, min(u.reason) as reason
    from processes s cross join lateral jsonb_each_text(s.unavailable_topics) u (topic, reason)
    where s.role = r.role and s.status = 'live'
    group by u.topic
    having count(*) = r.live
  ) u
) lacked on true
order by r.role
