-- List the definitions in force at an instant: of each name the newest version whose time has come.
-- returns: zero or more
-- $1 at timestamptz
-- $2 tenant text
-- index: none
-- locks: none
select distinct on (d.tenant, d.name)
  d.definition_no, d.tenant, d.name, d.version, d.kind, d.event_type, d.document, d.effective_from
from ledger.definition d
where d.effective_from <= coalesce($1::timestamptz, ledger.now()) and ($2::text is null or d.tenant = $2::text)
order by d.tenant, d.name, d.effective_from desc, d.version desc
