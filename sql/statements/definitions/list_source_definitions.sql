-- List a page of the newest documents of the definitions that a source made and that have not ended.
-- returns: zero or more
-- roles: operator
-- $1 tenants text[]
-- $2 source text
-- $3 after_tenant text
-- $4 after_name text
-- $5 limit integer
-- index: definition_source_idx, definition_tenant_name_version_key
-- locks: none
select d.document
from ledger.definition d
where d.tenant = any ($1::text[]) and (d.tenant, d.name) > ($3::text, $4::text)
  and d.document ->> 'source' = $2::text and d.document ->> 'source' is not null
  and not coalesce((d.document ->> 'ended')::boolean, false)
  and d.version = (
    select n.version from ledger.definition n
    where n.tenant = d.tenant and n.name = d.name order by n.version desc limit 1)
order by d.tenant, d.name
limit $5::integer
