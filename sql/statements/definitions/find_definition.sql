-- Find the version of a definition that is in force now: the newest that has begun.
-- returns: zero or one
-- roles: operator
-- $1 tenant text
-- $2 name text
-- index: definition_tenant_name_version_key
-- locks: none
select d.definition_no, d.tenant, d.name, d.version, d.kind, d.event_type, d.document, d.effective_from
from ledger.definition d
where d.tenant = $1::text and d.name = $2::text and d.effective_from <= ledger.now()
order by d.version desc
limit 1
