-- List the versions of calendars, without their days, oldest first, and whether each was changed in place.
-- returns: zero or more
-- roles: auditor, operator, reconciler
-- $1 tenants text[]
-- $2 names text[]
-- index: calendar_tenant_name_version_key, seal_pkey
-- locks: none
select c.tenant, c.name, c.calendar_no, c.version, c.valid_to, c.source, c.created_at,
  s.digest is distinct from ledger.row_digest(c) as is_changed
from unnest($1::text[], $2::text[]) asked (tenant, name)
join ledger.calendar c on c.tenant = asked.tenant and c.name = asked.name
left join ledger.seal s on s.what = 'calendar' and s.number = c.calendar_no
order by c.tenant, c.name, c.version
