-- List versions of definitions, each with the span in which it is in force, how far it is materialised, or why it cannot be.
-- returns: zero or more
-- roles: auditor, operator
-- $1 tenant text
-- $2 name text
-- $3 newest_only boolean
-- $4 limit integer
-- index: definition_tenant_name_version_key
-- locks: none
select v.definition_no, v.tenant, v.name, v.version, v.kind, v.event_type, v.document, v.effective_from, v.superseded_at,
  v.created_at, a.name as defined_by, m.materialised_until, m.failure, ledger.now() as now
from (
  select d.*,
    min(d.effective_from) over (
      partition by d.tenant, d.name order by d.version rows between 1 following and unbounded following) as superseded_at
  from ledger.definition d
  where ($1::text is null or d.tenant = $1::text) and ($2::text is null or d.name = $2::text)
) v
join ledger.actor a on a.actor_no = v.actor_no
left join ledger.materialised m on m.definition_no = v.definition_no
-- What still decides, or will: the others are history.
where not $3::boolean or coalesce(v.superseded_at > greatest(v.effective_from, ledger.now()), true)
order by v.tenant, v.name, v.version desc
limit $4::integer
