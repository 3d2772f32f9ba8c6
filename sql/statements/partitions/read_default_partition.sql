-- Read what is outside the monthly partitions: items, months that have too many to be moved, and whether the next month is missing.
-- returns: one
-- roles: auditor, operator
-- $1 items_max integer
-- index: partition_span_pkey
-- locks: none
select
  (select count(*) from (select from ledger.due_item_default limit $1::integer) i)::integer as items,
  array(select p.starts_on from ledger.partition_span p where p.leaf is null order by p.starts_on) as unmade,
  not exists (
    select from ledger.partition_span p
    where p.parent = 'due_item' and p.leaf is not null
      and p.starts_on = ledger.partition_start((ledger.now() at time zone 'UTC' + interval '1 month')::date)) as lacks_next
