-- Count, by tenant and type, the events that no rule had read when they were received, but for those read in a span.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 tenants text[]
-- $2 types text[]
-- $3 from_ats timestamptz[]
-- $4 until_ats timestamptz[]
-- $5 row_max integer
-- index: event_unmatched_idx, event_pkey
-- locks: none
with unmatched as materialized (
  select e.tenant, e.type, count(*) as event_count, min(e.received_at) as first_at, max(e.received_at) as last_at,
    max(e.event_no) as last_no
  from ledger.event e
  where e.matched is not true
    and not exists (
      select from unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[]) u (tenant, type, from_at, until_at)
      where u.tenant = e.tenant and u.type = e.type
        and (u.from_at is null or e.received_at >= u.from_at) and (u.until_at is null or e.received_at < u.until_at))
  group by e.tenant, e.type
  order by e.tenant, e.type
  limit $5::integer
)
select u.tenant, u.type, u.event_count, u.first_at, u.last_at, e.source, e.id
from unmatched u
join ledger.event e on e.event_no = u.last_no
order by u.tenant, u.type
