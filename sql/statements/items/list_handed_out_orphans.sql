-- List dates of which an item was handed out that the ledger does not have any more, with how many, and how many are in flight.
-- returns: zero or more
-- roles: reconciler
-- $1 effective_dates date[]
-- $2 claimed_since timestamptz
-- index: due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
handed_out as materialized (
  select u.item_no, u.effective_date, bool_or(c.closed_at is null) as in_flight
  from ledger.claim c
  cross join lateral unnest(c.item_no, c.effective_date) u (item_no, effective_date)
  where c.claimed_at >= $2::timestamptz and c.effective_date && $1::date[] and u.effective_date = any($1::date[])
  group by u.item_no, u.effective_date
  union all
  select t.item_no, t.effective_date, false
  from ledger.transition t
  where t.effective_date = any($1::date[]) and t.run_no is not null
)
select h.effective_date, count(distinct h.item_no) as items,
  count(distinct h.item_no) filter (where h.in_flight) as in_flight
from handed_out h
where not exists (
  select from ledger.due_item i where i.effective_date = h.effective_date and i.item_no = h.item_no)
group by h.effective_date
