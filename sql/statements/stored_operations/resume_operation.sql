-- Resume a paused operation: it goes on after the items that it had moved.
-- returns: zero or one
-- roles: operator
-- $1 operation_no bigint
-- $2 tenants text[]
-- index: operation_open_idx
-- locks: operation row (for update)
with locked as materialized (
  select o.operation_no, o.paused_by, o.pause_reason
  from ledger.operation o
  where o.operation_no = $1::bigint and o.ended_at is null and o.paused_at is not null
    and ($2::text[] is null or o.tenant = any ($2::text[]))
  for update
)
update ledger.operation o
set paused_at = null, paused_by = null, pause_reason = null, stepped_at = null
from locked l
where o.operation_no = l.operation_no and o.ended_at is null and o.paused_at is not null
returning case when o.advanced_at is null then 'waiting' else 'running' end as status,
  (select a.name from ledger.actor a where a.actor_no = l.paused_by) as paused_by, l.pause_reason
