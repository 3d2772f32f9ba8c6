-- Pause exactly the flows that a pause in force covers, on the terms of the first: a flow may be made, or a pause end, in a concurrent transaction.
-- returns: zero or more, one a flow that changed
-- roles: upkeep
-- index: none
-- locks: flow rows (for update, flow_no ascending, skip locked)
with wrong as materialized (
  select f.flow_no, p.paused_at, p.actor_no, p.reason
  from ledger.flow f
  left join lateral (
    select p.paused_at, p.actor_no, p.reason from ledger.pause p
    where p.tenant = f.tenant and p.resumed_at is null
      and coalesce(p.kind = f.kind, true) and coalesce(p.lane = f.lane, true)
    order by p.paused_at, p.pause_no limit 1
  ) p on true
  where (f.paused_at, f.paused_by, f.pause_reason) is distinct from (p.paused_at, p.actor_no, p.reason)
  order by f.flow_no
  for update of f skip locked
)
update ledger.flow f
set paused_at = w.paused_at, paused_by = w.actor_no, pause_reason = w.reason
from wrong w
where f.flow_no = w.flow_no
  and (f.paused_at, f.paused_by, f.pause_reason) is distinct from (w.paused_at, w.actor_no, w.reason)
returning f.flow_no, f.paused_at is not null as paused
