-- List the versions that have come into force after these, each with the span in which it is in force.
-- returns: zero or more
-- roles: materialiser
-- $1 definition_nos bigint[]
-- index: definition_tenant_name_version_key
-- locks: none
select o.definition_no, n.document, n.effective_from, least(n.ends_at, ledger.now()) as until_at
from ledger.definition o
cross join lateral (
  select v.document, v.effective_from,
    min(v.effective_from) over (order by v.version rows between 1 following and unbounded following) as ends_at
  from ledger.definition v
  where v.tenant = o.tenant and v.name = o.name and v.version > o.version and v.event_type is null
) n
where o.definition_no = any ($1::bigint[]) and n.effective_from < least(n.ends_at, ledger.now())
order by o.definition_no, n.effective_from
