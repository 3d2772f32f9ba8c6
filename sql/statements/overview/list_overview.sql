-- List the quarter hours of the flows that are worst: those named in their order, then most past their grace, then most failed, then most items. A flow that is named and counted has one of nothing if it has no other.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 flows_max integer
-- $3 first_flow_nos integer[]
-- index: overview_flow_worst_idx, overview_pkey
-- locks: none
select w.place::integer as place, w.tenant, w.kind, w.lane, w.grace_seconds,
  extract(epoch from ledger.machine_now() - w.counted_at)::double precision as age_seconds, coalesce(c.quarter, ledger.overview_begin()) as quarter,
  coalesce(c.completed, 0) as completed, coalesce(c.completed_late, 0) as completed_late, coalesce(c.in_flight, 0) as in_flight,
  coalesce(c.waiting, 0) as waiting, coalesce(c.blocked, 0) as blocked, coalesce(c.failed, 0) as failed, coalesce(c.is_capped, false) as is_capped
from (
  select o.flow_no, o.counted_at, f.lane, k.tenant, k.name as kind, k.grace_seconds,
    row_number() over (order by c.place, o.late desc, o.failed desc, o.items desc, o.flow_no) as place
  from (
    select n.flow_no, min(n.place) as place
    from (
      select u.flow_no, u.place from unnest($3::integer[]) with ordinality u (flow_no, place)
      union all
      (select o.flow_no, null
       from ledger.overview_flow o
       cross join lateral (select f.tenant from ledger.flow f where f.flow_no = o.flow_no offset 0) f
       where o.items > 0 and ($1::text[] is null or f.tenant = any ($1::text[]))
       order by o.late desc, o.failed desc, o.items desc, o.flow_no limit $2::integer)
    ) n
    group by n.flow_no
  ) c
  cross join lateral (select o.* from ledger.overview_flow o where o.flow_no = c.flow_no offset 0) o
  cross join lateral (select f.lane, f.kind_no from ledger.flow f where f.flow_no = c.flow_no offset 0) f
  cross join lateral (select k.tenant, k.name, k.grace_seconds from ledger.kind k where k.kind_no = f.kind_no offset 0) k
  where (o.items > 0 or (c.place is not null and o.counted_at > 'epoch')) and ($1::text[] is null or k.tenant = any ($1::text[]))
  order by place limit $2::integer
) w
left join lateral (
  select o.quarter, o.completed + o.completed_in_flight as completed, o.completed_late, o.in_flight, o.waiting, o.blocked, o.failed,
    o.is_capped
  from ledger.overview o
  where o.flow_no = w.flow_no and o.quarter >= ledger.overview_begin()
  order by o.quarter limit 193
) c on true
order by w.place, c.quarter
