-- Pause by tenant, kind and lane, null for all of them, or move the end of that pause; later flows in the scope are paused from the start.
-- returns: one
-- roles: operator
-- $1 tenant text
-- $2 kind text
-- $3 lane text
-- $4 reason text
-- $5 actor_no bigint
-- $6 paused_until timestamptz
-- index: pause_in_force_idx
-- locks: flow rows (for update, flow_no ascending), then a pause row
with asked as materialized (
  select $6::timestamptz <= ledger.now() as is_over
),
found as materialized (
  select f.flow_no, f.tenant, f.kind, f.lane
  from ledger.flow f
  where f.tenant = $1::text and ($2::text is null or f.kind = $2::text) and ($3::text is null or f.lane = $3::text)
    and f.paused_at is null and (select a.is_over is not true from asked a)
  order by f.flow_no
  for update of f
),
-- Counting reads every flow first: the order in which resuming locks them.
was as materialized (
  select p.paused_until as until, p.reason, p.actor_no
  from ledger.pause p
  where (select count(*) from found) >= 0
    and p.tenant = $1::text and p.kind is not distinct from $2::text and p.lane is not distinct from $3::text
    and p.resumed_at is null
  for update
),
added as (
  insert into ledger.pause as p (tenant, kind, lane, paused_at, actor_no, reason, paused_until)
  select $1::text, $2::text, $3::text, ledger.now(), $5::bigint, $4::text, $6::timestamptz
  where (select count(*) from was) >= 0 and (select a.is_over is not true from asked a)
    -- An insert takes a number even where it conflicts.
    and not exists (
      select from ledger.pause p
      where p.tenant = $1::text and p.kind is not distinct from $2::text and p.lane is not distinct from $3::text
        and p.resumed_at is null and p.paused_until is not distinct from $6::timestamptz)
  -- One that upkeep ends meanwhile is no conflict then: a new one begins.
  on conflict (tenant, kind, lane) where resumed_at is null
  do update set paused_until = excluded.paused_until where p.paused_until is distinct from excluded.paused_until
  returning p.tenant, p.kind, p.lane, p.reason, p.paused_until
),
paused as (
  update ledger.flow f
  set paused_at = ledger.now(), paused_by = $5::bigint, pause_reason = $4::text
  from found x
  where f.flow_no = x.flow_no and f.paused_at is null
  returning x.tenant, x.kind, x.lane
)
select
  (select coalesce(jsonb_agg(to_jsonb(a)), '[]') from added a) as pauses,
  (select coalesce(jsonb_agg(to_jsonb(p) order by p.kind, p.lane), '[]') from paused p) as flows,
  (select jsonb_build_object('until', w.until, 'reason', w.reason, 'paused_by', a.name)
   from was w join ledger.actor a on a.actor_no = w.actor_no) as was,
  (select a.is_over is true from asked a) as is_over
