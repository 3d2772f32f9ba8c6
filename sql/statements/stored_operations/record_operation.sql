-- Record an operation with its filter, the bounds of what it may touch, how many items match, and whether it needs approval by the policies of their kinds; none where nothing matches.
-- returns: zero or one
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
-- $15 reason text
-- $16 actor_no bigint
-- index: pending_pkey, review_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
bound as materialized (
  select b.*,
    row($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::timestamptz, $8::boolean, b.as_of,
      b.item_no_max, null, $9::smallint, $10::timestamptz, $11::timestamptz, $12::timestamptz)::ledger.item_filter as wanted
  from (
    select ledger.now() as as_of, greatest(
      (select max(p.item_no) from ledger.pending p), (select max(r.item_no) from ledger.review r),
      (select max(u.item_no) from ledger.claim c cross join lateral unnest(c.item_no) u (item_no)
       where $8::boolean and c.closed_at is null), 0) as item_no_max
  ) b
),
matched as materialized (
  select b.*, m.items as found, cardinality(m.items) as items, m.reached_item_no is not null as is_capped
  from bound b
  cross join lateral ledger.match_items(b.wanted, null, $13::integer, $14::integer) m
),
judged as (
  select m.*, ledger.approval_above(m.wanted, m.found, m.is_capped) as approval_above from matched m
)
insert into ledger.operation (
  verb, tenant, kind, lane, parked_reason, error, since, in_flight, state, due_from, due_before, until, as_of, item_no_max, matched,
  matched_capped, needs_approval, reason, actor_no)
select $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::timestamptz, $8::boolean, $9::smallint, $10::timestamptz,
  $11::timestamptz, $12::timestamptz, m.as_of, m.item_no_max, m.items, m.is_capped,
  m.approval_above is not null and (m.is_capped or m.items > m.approval_above), $15::text, $16::bigint
from judged m
where m.items > 0 or m.is_capped
returning operation_no
