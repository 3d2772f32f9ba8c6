-- Take an open operation, unless it is paused, awaits approval, or another process advances it now.
-- returns: zero or one
-- roles: upkeep
-- $1 operation_no bigint
-- index: operation_open_idx
-- locks: operation row (for update, skip locked), before the rows of its items
with taken as materialized (
  select o.verb, o.actor_no, o.reason, o.until, o.reached_item_no
  from ledger.operation o
  where o.operation_no = $1::bigint and o.ended_at is null and o.paused_at is null and not o.awaits_approval
  for update skip locked
)
select t.verb, t.actor_no, t.reason, t.until, t.reached_item_no from taken t
