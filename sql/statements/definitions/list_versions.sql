-- List versions of definitions, each with the span in which it is in force, how far it is materialised, or why it cannot be.
-- returns: zero or more
-- roles: auditor, operator
-- $1 tenants text[]
-- $2 tenant text
-- $3 name text
-- $4 newest_only boolean
-- $5 after_tenant text
-- $6 after_name text
-- $7 after_version integer
-- $8 limit integer
-- index: definition_tenant_name_version_key
-- locks: none
select v.definition_no, v.tenant, v.name, v.version, v.kind, v.event_type, v.document, v.effective_from, v.superseded_at,
  v.created_at, a.name as defined_by, m.materialised_until, m.failure, ledger.now() as now
from (
  select d.*,
    min(d.effective_from) over (
      partition by d.tenant, d.name order by d.version rows between 1 following and unbounded following) as superseded_at
  from ledger.definition d
  where (d.tenant, d.name) >= (coalesce($5::text, $2::text, (select min(t) from unnest($1::text[]) t), ''), coalesce($6::text, case when $2::text is not null then $3::text end, ''))
    and d.tenant <= coalesce($2::text, (select max(t) from unnest($1::text[]) t), (select max(l.tenant) from ledger.definition l))
    and ($1::text[] is null or d.tenant = any ($1::text[])) and ($3::text is null or d.name = $3::text)
) v
join ledger.actor a on a.actor_no = v.actor_no
left join ledger.materialised m on m.definition_no = v.definition_no
-- What still decides, or will: the others are history.
where (not $4::boolean or coalesce(v.superseded_at > greatest(v.effective_from, ledger.now()), true))
  and ($7::integer is null or (v.tenant, v.name) > ($5::text, $6::text) or v.version < $7::integer)
order by v.tenant, v.name, v.version desc
limit $8::integer
