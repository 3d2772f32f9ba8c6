-- List kinds by tenant and name, up to a limit.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 limit integer
-- index: kind_tenant_name_key
-- locks: none
select k.tenant, k.kind
from (
  select k.tenant, k.kind
  from (select distinct u.tenant from unnest($1::text[]) u (tenant)) t
  cross join lateral (
    select k.tenant, k.name as kind from ledger.kind k where k.tenant = t.tenant order by k.name limit $2::integer
  ) k
  union all
  (select k.tenant, k.name from ledger.kind k where $1::text[] is null order by k.tenant, k.name limit $2::integer)
) k
order by k.tenant, k.kind
limit $2::integer
