-- List the names of the definitions of the caller's tenants, of the first versions by name, up to a limit of versions.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 read_max integer
-- index: definition_tenant_name_version_key
-- locks: none
select distinct d.name
from (
  select d.name
  from (select distinct u.tenant from unnest($1::text[]) u (tenant)) t
  cross join lateral (
    select d.name from ledger.definition d where d.tenant = t.tenant order by d.name, d.version limit $2::integer
  ) d
  union all
  (select d.name from ledger.definition d where $1::text[] is null order by d.tenant, d.name, d.version limit $2::integer)
) d
order by d.name
