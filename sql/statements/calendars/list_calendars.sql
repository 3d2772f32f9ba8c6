-- List the newest version of each calendar, of one tenant or of all, after a place, and how many definitions name it.
-- returns: zero or more
-- roles: auditor, operator
-- $1 tenants text[]
-- $2 tenant text
-- $3 after_tenant text
-- $4 after_name text
-- $5 limit integer
-- index: calendar_tenant_name_version_key
-- locks: none
select c.tenant, c.name, c.calendar_no, c.version, c.valid_to, c.source, c.created_at, a.name as actor,
  (select count(distinct d.name) from ledger.definition d
   where d.tenant = c.tenant and d.document #>> '{calendar,name}' = c.name
     and d.document #>> '{calendar,name}' is not null) as definitions
from (
  select distinct on (n.tenant, n.name) n.*
  from ledger.calendar n
  where (n.tenant, n.name) >= (coalesce($3::text, $2::text, ''), coalesce($4::text, ''))
    and n.tenant <= coalesce($2::text, (select max(l.tenant) from ledger.calendar l))
    and ($1::text[] is null or n.tenant = any ($1::text[]))
    and ($3::text is null or (n.tenant, n.name) > ($3::text, $4::text))
  order by n.tenant, n.name, n.version desc
  limit $5::integer
) c
join ledger.actor a on a.actor_no = c.actor_no
order by c.tenant, c.name
