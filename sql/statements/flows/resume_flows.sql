-- End pauses of a tenant, kind and lane and all narrower ones; a flow that a wider pause still covers stays paused.
-- returns: one
-- roles: operator
-- $1 tenant text
-- $2 kind text
-- $3 lane text
-- $4 actor_no bigint
-- index: none
-- locks: flow rows (for update, flow_no ascending), then pause rows (for update, pause_no ascending)
with found as materialized (
  select f.flow_no, f.tenant, f.kind, f.lane
  from ledger.flow f
  where f.tenant = $1::text and ($2::text is null or f.kind = $2::text) and ($3::text is null or f.lane = $3::text)
    and f.paused_at is not null
  order by f.flow_no
  for update of f
),
-- Counting reads every flow first: two resumptions could deadlock if flows and pauses were locked alternately.
in_force as materialized (
  select p.pause_no
  from ledger.pause p
  where (select count(*) from found) >= 0
    and p.tenant = $1::text and p.resumed_at is null
    and ($2::text is null or p.kind = $2::text) and ($3::text is null or p.lane = $3::text)
  order by p.pause_no
  for update
),
ended as (
  update ledger.pause p
  set resumed_at = ledger.now(), resumed_by = $4::bigint
  from in_force i
  where p.pause_no = i.pause_no and p.resumed_at is null
  returning p.pause_no, p.tenant, p.kind, p.lane, p.reason, p.paused_at, p.paused_until, p.actor_no
),
judged as materialized (
  select x.*, w.paused_at, w.actor_no, w.reason
  from found x
  left join lateral (
    select p.paused_at, p.actor_no, p.reason from ledger.pause p
    where p.tenant = x.tenant and p.resumed_at is null
      and coalesce(p.kind = x.kind, true) and coalesce(p.lane = x.lane, true)
      and not exists (select from ended e where e.pause_no = p.pause_no)
    order by p.paused_at, p.pause_no limit 1
  ) w on true
),
resumed as (
  update ledger.flow f
  set paused_at = j.paused_at, paused_by = j.actor_no, pause_reason = j.reason
  from judged j
  where f.flow_no = j.flow_no and f.paused_at is not null
  returning j.tenant, j.kind, j.lane, f.paused_at is not null as still_paused, f.pause_reason
)
select
  (select coalesce(jsonb_agg(to_jsonb(e) - '{pause_no,paused_at,paused_until,actor_no}'::text[] order by e.pause_no), '[]')
   from ended e) as pauses,
  (select coalesce(jsonb_agg(jsonb_build_object(
     'kind', e.kind, 'lane', e.lane, 'paused_by', a.name, 'paused_at', e.paused_at, 'until', e.paused_until, 'reason', e.reason)
     order by e.pause_no), '[]')
   from ended e join ledger.actor a on a.actor_no = e.actor_no) as was,
  (select coalesce(jsonb_agg(to_jsonb(r) order by r.kind, r.lane), '[]') from resumed r) as flows
