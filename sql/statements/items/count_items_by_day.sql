-- Count the items of each effective date, or the rows of its journal where those are more, to plan windows.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 from_date date
-- $2 to_date date
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default),
item as (
  select i.effective_date, count(*) as items
  from ledger.due_item i
  where i.effective_date >= $1::date and i.effective_date < $2::date
  group by i.effective_date
),
journal as (
  select t.effective_date, count(*) as transitions
  from ledger.transition t
  where t.effective_date >= $1::date and t.effective_date < $2::date
  group by t.effective_date
)
select effective_date, greatest(i.items, j.transitions) as item_count
from item i
full join journal j using (effective_date)
order by effective_date
