-- List business keys of tenants that begin with a text, among the items of their flows with the latest effective dates; up to a limit of items is read.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 text text
-- $3 flows_max integer
-- $4 read_max integer
-- $5 limit integer
-- index: due_item_flow_idx
-- locks: none
-- No item of others is read, so what is found does not say how many keys they have.
with locked_default as (select from ledger.due_item_default),
scope as materialized (
  select f.flow_no from ledger.flow f where f.tenant = any ($1::text[]) order by f.flow_no desc limit $3::integer
)
select distinct i.business_key
from scope s
cross join lateral (
  select i.business_key
  from ledger.due_item i
  where i.flow_no = s.flow_no
  order by i.effective_date desc, i.item_no desc
  limit (select $4::integer / count(*) from scope)
) i
where starts_with(i.business_key, $2::text)
order by i.business_key
limit $5::integer
