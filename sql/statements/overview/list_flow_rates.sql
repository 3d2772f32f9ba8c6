-- List how many items of these flows ended a second, in the minutes before the last refresh of the overview; none where that is a minute ago.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 kinds text[]
-- $3 lanes text[]
-- index: flow_tenant_kind_lane_key
-- locks: none
select u.ord::integer as ord, case when o.rated_at >= r.rated_at then o.rate_per_second else 0 end as per_second
from unnest($1::text[], $2::text[], $3::text[]) with ordinality u (tenant, kind, lane, ord)
cross join lateral (
  select f.flow_no from ledger.flow f where f.tenant = u.tenant and f.kind = u.kind and f.lane = u.lane offset 0
) f
cross join lateral (select o.rate_per_second, o.rated_at from ledger.overview_flow o where o.flow_no = f.flow_no offset 0) o
join ledger.overview_reader r on r.rated_at > ledger.machine_now() - interval '1 minute'
