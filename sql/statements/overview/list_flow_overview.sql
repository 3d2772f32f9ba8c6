-- List the quarter hours of one flow, with the columns of `list_overview`.
-- returns: zero or more
-- roles: auditor
-- $1 tenant text
-- $2 kind text
-- $3 lane text
-- index: flow_tenant_kind_lane_key, overview_pkey
-- locks: none
select 1 as place, f.tenant, f.kind, f.lane, k.grace_seconds,
  extract(epoch from ledger.machine_now() - w.counted_at)::double precision as age_seconds, o.quarter,
  o.completed + o.completed_in_flight as completed, o.completed_late, o.in_flight, o.waiting, o.blocked, o.failed, o.is_capped
from ledger.flow f
cross join lateral (select k.grace_seconds from ledger.kind k where k.kind_no = f.kind_no offset 0) k
cross join lateral (select w.counted_at from ledger.overview_flow w where w.flow_no = f.flow_no offset 0) w
cross join lateral (
  select o.* from ledger.overview o
  where o.flow_no = f.flow_no and o.quarter >= ledger.overview_begin()
  order by o.quarter limit 193
) o
where f.tenant = $1::text and f.kind = $2::text and f.lane = $3::text
order by o.quarter
