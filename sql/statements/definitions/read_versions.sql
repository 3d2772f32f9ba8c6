-- Read these versions of definitions, each with the span in which it is in force and how far it is materialised.
-- returns: zero or more
-- roles: operator
-- $1 definition_nos bigint[]
-- index: definition_pkey, definition_tenant_name_version_key
-- locks: none
select d.definition_no, d.tenant, d.name, d.version, d.kind, d.event_type, d.document, d.effective_from,
  (
    select min(n.effective_from) from ledger.definition n
    where n.tenant = d.tenant and n.name = d.name and n.version > d.version
  ) as superseded_at,
  d.created_at, a.name as defined_by, m.materialised_until, m.failure, ledger.now() as now
from ledger.definition d
join ledger.actor a on a.actor_no = d.actor_no
left join ledger.materialised m on m.definition_no = d.definition_no
where d.definition_no = any ($1::bigint[])
order by d.definition_no
