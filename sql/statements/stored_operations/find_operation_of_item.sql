-- Find the first open operation that is still to move an item, among the first ones that are open.
-- returns: zero or one
-- roles: auditor, operator
-- $1 item_no bigint
-- $2 limit integer
-- index: operation_open_idx
-- locks: none
with locked_default as (select from ledger.due_item_default),
open as materialized (
  select o.* from ledger.operation o where o.ended_at is null order by o.operation_no limit $2::integer
)
select o.operation_no, o.verb, o.done, o.matched, o.matched_capped, o.requested, false as is_ended,
  o.paused_at is not null as is_paused, o.awaits_approval
from open o
cross join lateral ledger.match_items(
  row(o.verb, o.tenant, o.kind, o.lane, o.parked_reason, o.error, o.since, o.in_flight, o.as_of,
    least(o.item_no_max, $1::bigint), o.snapshot, o.state, o.due_from, o.due_before, o.until)::ledger.item_filter,
  greatest(o.reached_item_no, $1::bigint - 1), 1, 1) m
where cardinality(m.items) > 0
order by o.operation_no
limit 1
