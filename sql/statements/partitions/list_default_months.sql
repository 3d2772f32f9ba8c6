-- List the months that have items in the default partition, without those that are known to have too many.
-- returns: zero or more
-- roles: upkeep
-- index: due_item_pkey
-- locks: none
with recursive month (starts_on, ends_before) as (
  select ledger.partition_start(d.first), ledger.partition_end(d.first)
  from (select min(effective_date) as first from ledger.due_item_default) d
  where d.first is not null
  union all
  select ledger.partition_start(d.first), ledger.partition_end(d.first)
  from month m
  cross join lateral (
    select min(i.effective_date) as first from ledger.due_item_default i where i.effective_date >= m.ends_before) d
  where d.first is not null
)
select m.starts_on
from month m
where not exists (select from ledger.partition_span p where p.parent = 'due_item' and p.starts_on = m.starts_on)
order by m.starts_on
