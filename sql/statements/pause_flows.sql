-- Pause by tenant, kind and lane, null for all of them; flows made later are born paused.
-- returns: zero or more, one a flow that was not paused before
-- $1 tenant text
-- $2 kind text
-- $3 lane text
-- $4 reason text
-- $5 actor_no integer
-- index: none
-- locks: flow rows (for update, flow_no ascending)
with standing as (
  insert into ledger.pause (tenant, kind, lane, paused_at, actor_no, reason)
  values ($1::text, $2::text, $3::text, ledger.now(), $5::integer, $4::text)
  on conflict do nothing
),
found as materialized (
  select f.flow_no, k.tenant, k.name as kind, f.lane
  from ledger.flow f join ledger.kind k on k.kind_no = f.kind_no
  where k.tenant = $1::text and ($2::text is null or k.name = $2::text) and ($3::text is null or f.lane = $3::text)
    and f.paused_at is null
  order by f.flow_no
  for update of f
)
update ledger.flow f
set paused_at = ledger.now(), paused_by = $5::integer, pause_reason = $4::text
from found x
where f.flow_no = x.flow_no and f.paused_at is null
returning f.flow_no, x.tenant, x.kind, x.lane
