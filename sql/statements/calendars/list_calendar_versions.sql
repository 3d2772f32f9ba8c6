-- List the versions of calendars, without their days, oldest first.
-- returns: zero or more
-- roles: auditor, operator, reconciler
-- $1 tenants text[]
-- $2 names text[]
-- index: calendar_tenant_name_version_key
-- locks: none
select c.tenant, c.name, c.calendar_no, c.version, c.valid_to, c.source, c.created_at
from unnest($1::text[], $2::text[]) asked (tenant, name)
join ledger.calendar c on c.tenant = asked.tenant and c.name = asked.name
order by c.tenant, c.name, c.version
