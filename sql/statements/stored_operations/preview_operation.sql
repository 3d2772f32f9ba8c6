-- Count the items to which a verb would be applied now, by flow and state, with the first 20 keys of each, and above how many a second person is needed; one row at least.
-- returns: zero or more
-- roles: operator
-- $1 verb text
-- $2 tenant text
-- $3 kind text
-- $4 lane text
-- $5 parked_reason text
-- $6 error text
-- $7 since timestamptz
-- $8 in_flight boolean
-- $9 state smallint
-- $10 due_from timestamptz
-- $11 due_before timestamptz
-- $12 until timestamptz
-- $13 examined_max integer
-- $14 counted_max integer
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default),
wanted as materialized (
  select row($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::timestamptz, $8::boolean, ledger.now(),
    9223372036854775807, null, $9::smallint, $10::timestamptz, $11::timestamptz, $12::timestamptz)::ledger.item_filter as filter
),
matched as materialized (
  select m.items, m.reached_item_no is not null as is_capped,
    ledger.approval_above(w.filter, m.items, m.reached_item_no is not null) as approval_above
  from wanted w
  cross join lateral ledger.match_items(w.filter, null, $13::integer, $14::integer) m
)
select u.tenant, u.kind, u.lane, s.name as state, count(u.item_no) as items, min(u.entered_at) as oldest_at,
  max(u.entered_at) as newest_at,
  (array_agg(u.business_key order by u.item_no) filter (where u.item_no is not null))[:20] as business_keys, m.is_capped, m.approval_above
from matched m
left join lateral unnest(m.items) u on true
left join ledger.state s on s.state = u.state
group by u.tenant, u.kind, u.lane, s.name, m.is_capped, m.approval_above
order by u.tenant, u.kind, u.lane, s.name
