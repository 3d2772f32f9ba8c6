-- List the ranges of effective dates that have a table partition of their own, with its bytes.
-- returns: zero or more
-- roles: auditor, reconciler
-- index: none
-- locks: none
with bound as (
  select c.oid, regexp_match(
    pg_get_expr(c.relpartbound, c.oid), $$^FOR VALUES FROM \('([0-9-]+)'\) TO \('([0-9-]+)'\)$$) as bounds
  from pg_catalog.pg_inherits h
  join pg_catalog.pg_class c on c.oid = h.inhrelid
  where h.inhparent = 'ledger.due_item'::regclass
)
select b.bounds[1]::date as from_date, b.bounds[2]::date as to_date, coalesce(pg_relation_size(b.oid), 0) as bytes
from bound b
where b.bounds is not null
order by 1
