-- List the event rules in force: the newest version of each definition that has begun.
-- returns: zero or more
-- roles: intake
-- index: none
-- locks: none
select r.definition_no, r.tenant, r.name, r.version, r.kind, r.event_type, r.document, r.effective_from
from (
  select distinct on (d.tenant, d.name) d.*
  from ledger.definition d
  where d.effective_from <= ledger.now()
  order by d.tenant, d.name, d.version desc
) r
where r.event_type is not null
order by r.definition_no
