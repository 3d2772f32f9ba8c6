-- Pause by tenant, kind and lane, null for all of them; later flows in the scope are paused from the start.
-- returns: one
-- roles: operator
-- $1 tenant text
-- $2 kind text
-- $3 lane text
-- $4 reason text
-- $5 actor_no bigint
-- index: none
-- locks: flow rows (for update, flow_no ascending), then a pause row
with found as materialized (
  select f.flow_no, f.tenant, f.kind, f.lane
  from ledger.flow f
  where f.tenant = $1::text and ($2::text is null or f.kind = $2::text) and ($3::text is null or f.lane = $3::text)
    and f.paused_at is null
  order by f.flow_no
  for update of f
),
-- Counting reads every flow first: the order in which resuming locks them.
added as (
  insert into ledger.pause (tenant, kind, lane, paused_at, actor_no, reason)
  select $1::text, $2::text, $3::text, ledger.now(), $5::bigint, $4::text
  where (select count(*) from found) >= 0
    -- An insert takes a number even where it conflicts.
    and not exists (
      select from ledger.pause p
      where p.tenant = $1::text and p.kind is not distinct from $2::text and p.lane is not distinct from $3::text
        and p.resumed_at is null)
  on conflict do nothing
  returning tenant, kind, lane, reason
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
  (select coalesce(jsonb_agg(to_jsonb(p) order by p.kind, p.lane), '[]') from paused p) as flows
