-- Find the newest version of each of these calendars, without its days; an unknown name returns no row.
-- returns: zero or more
-- roles: auditor, intake, materialiser, operator, reconciler
-- $1 tenants text[]
-- $2 names text[]
-- index: calendar_tenant_name_version_key
-- locks: none
select c.tenant, c.name, c.calendar_no, c.version, c.valid_to, c.source, c.created_at
from unnest($1::text[], $2::text[]) asked (tenant, name)
cross join lateral (
  select n.tenant, n.name, n.calendar_no, n.version, n.valid_to, n.source, n.created_at
  from ledger.calendar n where n.tenant = asked.tenant and n.name = asked.name
  order by n.version desc limit 1
) c
