-- Choose and lock the next items of an operation. An item that moved meanwhile is left out, unless those in flight are meant.
-- returns: zero or one
-- roles: upkeep
-- $1 operation_no bigint
-- $2 examined_max integer
-- $3 matched_max integer
-- index: operation_open_idx, pending_pkey, review_pkey
-- locks: pending rows, then review rows (for update, item_no ascending); its operation is locked by take_operation, in a statement before
with locked_default as (select from ledger.due_item_default),
matched as materialized (
  select o.in_flight, m.items, m.reached_item_no
  from ledger.operation o
  cross join lateral ledger.match_items(
    row(o.verb, o.tenant, o.kind, o.lane, o.parked_reason, o.error, o.since, o.in_flight, o.as_of, o.item_no_max,
      o.snapshot, o.state, o.due_from, o.due_before, o.until)::ledger.item_filter,
    o.reached_item_no, $2::integer, $3::integer) m
  where o.operation_no = $1::bigint and o.ended_at is null and o.paused_at is null
),
item as materialized (
  select u.item_no, u.id from matched m cross join lateral unnest(m.items) u
),
locked_pending as materialized (
  select p.item_no from item i join ledger.pending p on p.item_no = i.item_no order by p.item_no for update of p
),
locked_review as materialized (
  select r.item_no from item i join ledger.review r on r.item_no = i.item_no order by r.item_no for update of r
)
select m.reached_item_no, array(
  select i.id from item i
  where m.in_flight
    or i.item_no in (select p.item_no from locked_pending p union all select r.item_no from locked_review r)
  order by i.item_no) as ids
from matched m
