-- List the definitions whose newest version names a calendar, with how far each is materialised.
-- returns: zero or more
-- roles: operator
-- $1 tenant text
-- $2 name text
-- $3 limit integer
-- index: definition_calendar_idx, definition_tenant_name_version_key
-- locks: none
select d.definition_no, d.name, d.version, d.kind, d.event_type, d.document #>> '{calendar,roll}' as roll,
  m.materialised_until
from ledger.definition d left join ledger.materialised m on m.definition_no = d.definition_no
where d.tenant = $1::text and d.document #>> '{calendar,name}' = $2::text
  and d.document #>> '{calendar,name}' is not null
  and d.version = (
    select n.version from ledger.definition n
    where n.tenant = d.tenant and n.name = d.name order by n.version desc limit 1)
order by d.name
limit $3::integer
