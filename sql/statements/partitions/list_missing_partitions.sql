-- List the partitions to make: from one month before now to `ahead` after it, and those with too many rows in the default partition.
-- returns: zero or more
-- roles: upkeep
-- $1 ahead interval
-- index: none
-- locks: none
select wanted.parent, wanted.starts_on
from (
  select parent.name as parent, ledger.partition_start(month.month::date) as starts_on
  -- Tables partitioned by when something happened need two months at most: each partition costs every statement that
  -- finds a fence or a run by its number.
  from (values ('due_item', $1::interval), ('event', least($1, '2 months')), ('claim', least($1, '2 months')),
    ('run', least($1, '2 months'))) parent (name, ahead)
  cross join lateral generate_series(
    date_trunc('month', ledger.now() - interval '1 month', 'UTC') at time zone 'UTC',
    date_trunc('month', ledger.now() + parent.ahead, 'UTC') at time zone 'UTC',
    interval '1 month') month
  union
  select p.parent, p.starts_on from ledger.partition_span p where p.leaf is null
) wanted
where not exists (
  select from ledger.partition_span p
  where p.parent = wanted.parent and p.starts_on = wanted.starts_on and p.leaf is not null)
order by wanted.starts_on, wanted.parent
