-- Find the parked items of a filter, the first by number, and whether there may be more.
-- returns: one
-- roles: operator
-- $1 tenant text
-- $2 kind text
-- $3 lane text
-- $4 parked_reason text
-- $5 error text
-- $6 examined_max integer
-- $7 limit integer
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default)
select array(select u.id from unnest(m.items) u order by u.item_no) as ids, m.reached_item_no is not null as is_capped
from ledger.match_items(
  row('redrive', $1::text, $2::text, $3::text, $4::text, $5::text, null, false, ledger.now(), 9223372036854775807,
    null, null, null, null, null)::ledger.item_filter,
  null, $6::integer, $7::integer) m
