-- Group parked items by flow, reason and class of the last error, the largest groups first; on request those that one has taken, or nobody (0).
-- returns: zero or more
-- roles: auditor, operator
-- $1 tenants text[]
-- $2 tenant text
-- $3 kind text
-- $4 examined_max integer
-- $5 limit integer
-- $6 taken_by bigint
-- index: review_parked_idx, review_flow_idx, review_taken_idx
-- locks: none
-- Those are examined that were parked first, at most so many.
with locked_default as (select from ledger.due_item_default),
scope as materialized (
  select f.flow_no
  from ledger.flow f join ledger.kind k on k.kind_no = f.kind_no
  where ($1::text[] is null or k.tenant = any ($1::text[])) and ($2::text is null or k.tenant = $2::text)
    and ($3::text is null or k.name = $3::text)
    and not ($1::text[] is null and $2::text is null and $3::text is null) and coalesce($6::bigint, 0) = 0
),
found as materialized (
  select r.*
  from scope s
  cross join lateral (
    select r.* from ledger.review r
    where r.flow_no between s.flow_no and s.flow_no  -- ordered so, it is read from the index that begins with the flow
      and ($6::bigint is null or r.taken_by is null)
    order by r.flow_no, r.parked_at, r.item_no limit $4::integer
  ) r
  union all
  (select r.* from ledger.review r
   where $1::text[] is null and $2::text is null and $3::text is null
     and coalesce($6::bigint, 0) = 0 and ($6::bigint is null or r.taken_by is null)
   order by r.parked_at, r.item_no limit $4::integer)
  union all
  (select r.*
   from ledger.review r join ledger.flow f on f.flow_no = r.flow_no join ledger.kind k on k.kind_no = f.kind_no
   where $6::bigint > 0 and r.taken_by = $6::bigint
     and ($1::text[] is null or k.tenant = any ($1::text[])) and ($2::text is null or k.tenant = $2::text)
     and ($3::text is null or k.name = $3::text)
   order by r.parked_at, r.item_no limit $4::integer)
),
examined as materialized (
  select r.*, j.error, j.message
  from (select r.* from found r order by r.parked_at, r.item_no limit $4::integer) r
  cross join lateral (  -- as `match_items` has the error by which operations find items
    select (array_agg(t.detail ->> 'error' order by t.at desc) filter (where t.detail ? 'error'))[1] as error,
      (array_agg(t.detail ->> 'message' order by t.at desc) filter (where t.detail ? 'error'))[1] as message
    from ledger.transition t
    where t.item_no = r.item_no and t.effective_date = r.effective_date
      and t.event not in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
  ) j
),
grouped as materialized (
  select k.tenant, k.name as kind, f.lane, e.reason, e.error, count(*)::integer as items,
    (select count(*) from examined) >= $4::integer as items_capped, min(e.parked_at) as oldest_at,
    max(e.parked_at) as newest_at,
    case when k.redacted_fields = '{}' then left((array_agg(e.message order by e.parked_at desc))[1], 500) end as message,
    count(e.taken_by)::integer as taken, array_agg(distinct e.taken_by) as takers
  from examined e
  join ledger.flow f on f.flow_no = e.flow_no
  join ledger.kind k on k.kind_no = f.kind_no
  group by k.tenant, k.name, k.redacted_fields, f.lane, e.reason, e.error
  order by count(*) desc, k.tenant, k.name, f.lane, e.reason, e.error
  limit $5::integer
)
select g.tenant, g.kind, g.lane, g.reason, g.error, g.items, g.items_capped, g.oldest_at, g.newest_at, g.message, g.taken,
  array(select a.name from ledger.actor a where a.actor_no = any (g.takers) order by a.name limit 3) as taken_by
from grouped g
order by g.items desc, g.tenant, g.kind, g.lane, g.reason, g.error
