-- List dates of which items were handed out that the ledger does not have any more, by topic, with how many and how many are in flight.
-- The topic is null for a direct claim, and for an item that only the journal knows.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 effective_dates date[]
-- $2 claimed_since timestamptz
-- index: due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
claimed as materialized (
  select u.item_no, u.effective_date, c.partition, c.topic, c.closed_at
  from ledger.claim c
  cross join lateral unnest(c.item_no, c.effective_date) u (item_no, effective_date)
  where c.claimed_at >= $2::timestamptz and c.effective_date && $1::date[]
),
handed_out as materialized (
  select c.item_no, c.effective_date, case when c.partition >= 0 then c.topic end as topic, c.closed_at is null as in_flight
  from claimed c
  where c.effective_date = any($1::date[])
  union all
  select t.item_no, t.effective_date, null, false
  from ledger.transition t
  where t.effective_date = any($1::date[]) and t.run_no is not null
    and not exists (select from claimed c where c.item_no = t.item_no)
)
select h.effective_date, h.topic, count(distinct h.item_no) as items,
  count(distinct h.item_no) filter (where h.in_flight) as in_flight
from handed_out h
where not exists (
  select from ledger.due_item i where i.effective_date = h.effective_date and i.item_no = h.item_no)
group by h.effective_date, h.topic
