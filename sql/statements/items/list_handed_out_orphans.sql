-- Of the next claims by fence: list dates of which they have items that the ledger does not have any more, by topic, and whether such a claim is open.
-- The topic is null for a direct claim.
-- returns: one or more, each with the fence to continue after, null after the last claims; without a date if no item is gone
-- roles: auditor, reconciler
-- $1 effective_dates date[]
-- $2 after_fence bigint
-- $3 limit integer
-- index: claim_pkey, due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
page as materialized (
  select c.fence, c.item_no, c.effective_date, case when c.partition >= 0 then c.topic end as topic, c.closed_at is null as in_flight
  from ledger.claim c
  where c.fence > $2::bigint
  order by c.fence limit $3::integer
)
select p.reached, g.effective_date, g.topic, g.in_flight
from (select case when count(*) = $3::integer then max(c.fence) end as reached from page c) p
left join (
  select u.effective_date, c.topic, bool_or(c.in_flight) as in_flight
  from page c
  cross join lateral unnest(c.item_no, c.effective_date) u (item_no, effective_date)
  where c.effective_date && $1::date[] and u.effective_date = any ($1::date[])
    and not exists (
      select from ledger.due_item i where i.effective_date = u.effective_date and i.item_no = u.item_no)
  group by u.effective_date, c.topic
) g on true
