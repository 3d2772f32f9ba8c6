-- Find one version of a calendar, the newest if none is named.
-- returns: zero or one
-- roles: auditor, operator
-- $1 tenant text
-- $2 name text
-- $3 version integer
-- index: calendar_tenant_name_version_key
-- locks: none
select c.calendar_no, c.tenant, c.name, c.version, c.document, c.valid_to, c.source, c.created_at
from ledger.calendar c
where c.tenant = $1::text and c.name = $2::text and c.version = coalesce($3::integer, (
  select n.version from ledger.calendar n
  where n.tenant = $1::text and n.name = $2::text order by n.version desc limit 1))
