-- List business keys of all tenants that begin with a text, in the order of the index; up to a limit of items is read.
-- returns: zero or more
-- roles: auditor
-- $1 text text
-- $2 read_max integer
-- $3 limit integer
-- index: due_item_key_idx
-- locks: none
with locked_default as (select from ledger.due_item_default)
select distinct i.business_key
from (
  select i.business_key from ledger.due_item i
  where i.business_key >= $1::text
  order by i.business_key limit $2::integer
) i
where starts_with(i.business_key, $1::text)
order by i.business_key
limit $3::integer
