-- Count open items by tenant and kind: pending, handed out, running, and parked.
-- returns: zero or more
-- roles: auditor, reconciler
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default),
waiting as (select flow_no, count(*) as pending from ledger.pending group by flow_no),
parked as (select flow_no, count(*) as reviews from ledger.review group by flow_no),
open_counts as (
  select i.flow_no,
    count(*) filter (where o.state = 2 /* Claimed */) as handed_out,
    count(*) filter (where o.state = 3 /* Running */) as running
  from ledger.open_item o
  -- One look-up for each: the planner overestimates the view, and would read all items.
  cross join lateral (
    select i.flow_no from ledger.due_item i where i.effective_date = o.effective_date and i.item_no = o.item_no offset 0
  ) i
  group by i.flow_no
)
select f.tenant, f.kind,
  coalesce(sum(w.pending), 0)::bigint as pending,
  coalesce(sum(h.handed_out), 0)::bigint as handed_out,
  coalesce(sum(h.running), 0)::bigint as running,
  coalesce(sum(p.reviews), 0)::bigint as reviews
from ledger.flow f
left join waiting w on w.flow_no = f.flow_no
left join parked p on p.flow_no = f.flow_no
left join open_counts h on h.flow_no = f.flow_no
group by f.tenant, f.kind
order by f.tenant, f.kind
