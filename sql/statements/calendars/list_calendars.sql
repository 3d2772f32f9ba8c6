-- List the newest version of each calendar, of one tenant or of all, and how many definitions name it.
-- returns: zero or more
-- roles: auditor, operator
-- $1 tenant text
-- $2 limit integer
-- index: none
-- locks: none
select c.tenant, c.name, c.calendar_no, c.version, c.valid_to, c.source, c.created_at, a.name as actor,
  (select count(distinct d.name) from ledger.definition d
   where d.tenant = c.tenant and d.document #>> '{calendar,name}' = c.name
     and d.document #>> '{calendar,name}' is not null) as definitions
from (
  select distinct on (n.tenant, n.name) n.*
  from ledger.calendar n
  where $1::text is null or n.tenant = $1::text
  order by n.tenant, n.name, n.version desc
  limit $2::integer
) c
join ledger.actor a on a.actor_no = c.actor_no
order by c.tenant, c.name
