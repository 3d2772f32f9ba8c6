-- Lock flows before their limits are measured, except those that another allocator has locked. Return whose items in flight are counted.
-- returns: zero or more
-- roles: allocator, pull_worker
-- $1 flow_nos integer[]
-- index: none
-- locks: flow rows (for update, flow_no ascending, skip locked)
select f.flow_no,
  k.settled_by = 'topic' or num_nonnulls(f.concurrency_max, f.window_items, f.circuit_failure_ratio) > 0 as counted
from ledger.flow f
join ledger.kind k on k.kind_no = f.kind_no
where f.flow_no = any ($1::integer[]) and f.paused_at is null
order by f.flow_no
for update of f skip locked
