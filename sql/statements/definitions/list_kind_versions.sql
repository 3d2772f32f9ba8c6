-- List versions of the definitions of a kind as `list_versions` does, and read those of no other kind.
-- returns: zero or more
-- roles: auditor, operator
-- $1 tenants text[]
-- $2 tenant text
-- $3 kind text
-- $4 newest_only boolean
-- $5 after_tenant text
-- $6 after_name text
-- $7 after_version integer
-- $8 limit integer
-- index: definition_kind_idx, definition_tenant_name_version_key
-- locks: none
select v.definition_no, v.tenant, v.name, v.version, v.kind, v.event_type, v.document, v.effective_from, v.superseded_at,
  v.created_at, a.name as defined_by, m.materialised_until, m.failure, ledger.now() as now
from (
  select distinct k.tenant, k.name
  from ledger.definition k
  where k.kind = $3::text
    and (k.tenant, k.name) >= (coalesce($5::text, $2::text, (select min(t) from unnest($1::text[]) t), ''), coalesce($6::text, ''))
    and k.tenant <= coalesce($2::text, (select max(t) from unnest($1::text[]) t), (select max(l.tenant) from ledger.definition l))
    and ($1::text[] is null or k.tenant = any ($1::text[]))
  order by k.tenant, k.name
) n
cross join lateral (
  select d.*,
    min(d.effective_from) over (order by d.version rows between 1 following and unbounded following) as superseded_at
  from ledger.definition d
  where d.tenant = n.tenant and d.name = n.name
) v
cross join lateral (select a.name from ledger.actor a where a.actor_no = v.actor_no offset 0) a
left join lateral (
  select m.materialised_until, m.failure from ledger.materialised m where m.definition_no = v.definition_no offset 0
) m on true
where (not $4::boolean or coalesce(v.superseded_at > greatest(v.effective_from, ledger.now()), true))
  and v.kind = $3::text
  and ($7::integer is null or (n.tenant, n.name) > ($5::text, $6::text) or v.version < $7::integer)
order by n.tenant, n.name, v.version desc
limit $8::integer
