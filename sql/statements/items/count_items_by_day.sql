-- Count the items of each effective date, to plan windows.
-- returns: zero or more
-- roles: reconciler
-- $1 from_date date
-- $2 to_date date
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default)
select effective_date, count(*) as item_count
from ledger.due_item
where effective_date >= $1::date and effective_date < $2::date
group by effective_date
