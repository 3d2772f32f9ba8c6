-- List the quarter hours of one flow, with the columns of `list_overview`; one of nothing if the flow is counted and has no other.
-- returns: zero or more
-- roles: auditor
-- $1 tenant text
-- $2 kind text
-- $3 lane text
-- index: flow_tenant_kind_lane_key, overview_pkey
-- locks: none
select 1 as place, f.tenant, f.kind, f.lane, k.grace_seconds,
  extract(epoch from ledger.machine_now() - w.counted_at)::double precision as age_seconds,
  coalesce(o.quarter, ledger.overview_begin()) as quarter, coalesce(o.completed + o.completed_in_flight, 0) as completed,
  coalesce(o.completed_late, 0) as completed_late, coalesce(o.in_flight, 0) as in_flight, coalesce(o.waiting, 0) as waiting,
  coalesce(o.blocked, 0) as blocked, coalesce(o.failed, 0) as failed, coalesce(o.is_capped, false) as is_capped
from ledger.flow f
cross join lateral (select k.grace_seconds from ledger.kind k where k.kind_no = f.kind_no offset 0) k
cross join lateral (select w.counted_at from ledger.overview_flow w where w.flow_no = f.flow_no offset 0) w
left join lateral (
  select o.* from ledger.overview o
  where o.flow_no = f.flow_no and o.quarter >= ledger.overview_begin()
  order by o.quarter limit 193
) o on true
where f.tenant = $1::text and f.kind = $2::text and f.lane = $3::text and (o.quarter is not null or w.counted_at > 'epoch')
order by o.quarter
