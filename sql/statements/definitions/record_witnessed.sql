-- Record what the witness said about versions, in place of what it said before; no answer leaves a disagreement as it was.
-- returns: zero or more
-- roles: operator, reconciler
-- $1 tenants text[]
-- $2 names text[]
-- $3 versions integer[]
-- $4 agreements text[]
-- $5 packages text[]
-- $6 reasons text[]
-- $7 times text[]
-- index: definition_tenant_name_version_key
-- locks: witnessed rows (definition_no ascending)
insert into ledger.witnessed as w (definition_no, agreement, package, reason, times, asked_at)
select d.definition_no, u.agreement, u.package, u.reason, u.times::jsonb, ledger.machine_now()
from unnest($1::text[], $2::text[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::text[])
  u (tenant, name, version, agreement, package, reason, times)
join ledger.definition d on d.tenant = u.tenant and d.name = u.name and d.version = u.version
order by d.definition_no
on conflict (definition_no) do update set
  agreement = case when excluded.agreement = 'not_witnessed' and w.times is not null then w.agreement else excluded.agreement end,
  package = case when excluded.agreement = 'not_witnessed' and w.times is not null then w.package else excluded.package end,
  times = case when excluded.agreement = 'not_witnessed' then w.times else excluded.times end,
  reason = excluded.reason, asked_at = excluded.asked_at
returning definition_no
