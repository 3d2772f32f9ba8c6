-- List the lanes of the first flows of the caller's tenants, up to a limit of flows; the default lane has no name.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 read_max integer
-- index: flow_tenant_kind_lane_key
-- locks: none
select distinct f.lane
from (
  select f.lane
  from (select distinct u.tenant from unnest($1::text[]) u (tenant)) t
  cross join lateral (
    select f.lane from ledger.flow f where f.tenant = t.tenant order by f.kind, f.lane limit $2::integer
  ) f
  union all
  (select f.lane from ledger.flow f where $1::text[] is null order by f.tenant, f.kind, f.lane limit $2::integer)
) f
where f.lane <> ''
order by f.lane
