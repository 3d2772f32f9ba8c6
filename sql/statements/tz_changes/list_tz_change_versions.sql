-- List the versions in a tz change by name, by page.
-- returns: zero or more
-- roles: operator
-- $1 change_no bigint
-- $2 after_tenant text
-- $3 after_name text
-- $4 after_version integer
-- $5 limit integer
-- index: definition_tenant_name_version_key, tz_change_version_pkey
-- locks: none
select d.definition_no, d.tenant, d.name, d.version, v.superseded_at, v.failure, v.applied_at, v.items, v.superseded
from ledger.definition d
-- For each definition by its index: a join would aggregate the whole change for each page.
cross join lateral (
  select max(v.superseded_at) as superseded_at, min(v.failure) as failure, max(v.applied_at) as applied_at,
    max(v.items) as items, bool_or(v.superseded) as superseded
  from ledger.tz_change_version v
  where v.change_no = $1::bigint and v.definition_no = d.definition_no
  having count(*) > 0
) v
where (d.tenant, d.name, d.version) > ($2::text, $3::text, $4::integer)
order by d.tenant, d.name, d.version
limit $5::integer
