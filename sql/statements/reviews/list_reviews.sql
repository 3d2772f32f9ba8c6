-- List parked items, oldest first or newest first; on request those that one has taken, or nobody (0).
-- returns: zero or more
-- roles: auditor, operator
-- $1 limit integer
-- $2 tenants text[]
-- $3 tenant text
-- $4 kind text
-- $5 after_parked_at timestamptz
-- $6 after_item_no bigint
-- $7 newest_first boolean
-- $8 taken_by bigint
-- index: review_parked_idx, review_flow_idx, review_taken_idx
-- locks: none
-- Of each flow so many are read as a page has: what others have parked costs nothing.
with locked_default as (select from ledger.due_item_default),
scope as materialized (
  select f.flow_no
  from ledger.flow f
  where ($2::text[] is null or f.tenant = any ($2::text[])) and ($3::text is null or f.tenant = $3::text)
    and ($4::text is null or f.kind = $4::text)
    and not ($2::text[] is null and $3::text is null and $4::text is null) and coalesce($8::bigint, 0) = 0
),
found as materialized (
  select r.*
  from scope s
  cross join lateral (
    (select r.* from ledger.review r
     where not $7::boolean and r.flow_no = s.flow_no and ($8::bigint is null or r.taken_by is null)
       and ($5::timestamptz is null or (r.parked_at, r.item_no) > ($5::timestamptz, $6::bigint))
     order by r.parked_at, r.item_no limit $1::integer)
    union all
    (select r.* from ledger.review r
     where $7::boolean and r.flow_no = s.flow_no and ($8::bigint is null or r.taken_by is null)
       and ($5::timestamptz is null or (r.parked_at, r.item_no) < ($5::timestamptz, $6::bigint))
     order by r.parked_at desc, r.item_no desc limit $1::integer)
  ) r
  union all
  (select r.* from ledger.review r
   where not $7::boolean and $2::text[] is null and $3::text is null and $4::text is null
     and coalesce($8::bigint, 0) = 0 and ($8::bigint is null or r.taken_by is null)
     and ($5::timestamptz is null or (r.parked_at, r.item_no) > ($5::timestamptz, $6::bigint))
   order by r.parked_at, r.item_no limit $1::integer)
  union all
  (select r.* from ledger.review r
   where $7::boolean and $2::text[] is null and $3::text is null and $4::text is null
     and coalesce($8::bigint, 0) = 0 and ($8::bigint is null or r.taken_by is null)
     and ($5::timestamptz is null or (r.parked_at, r.item_no) < ($5::timestamptz, $6::bigint))
   order by r.parked_at desc, r.item_no desc limit $1::integer)
  union all
  (select r.* from ledger.review r join ledger.flow f on f.flow_no = r.flow_no
   where not $7::boolean and $8::bigint > 0 and r.taken_by = $8::bigint
     and ($2::text[] is null or f.tenant = any ($2::text[])) and ($3::text is null or f.tenant = $3::text)
     and ($4::text is null or f.kind = $4::text)
     and ($5::timestamptz is null or (r.parked_at, r.item_no) > ($5::timestamptz, $6::bigint))
   order by r.parked_at, r.item_no limit $1::integer)
  union all
  (select r.* from ledger.review r join ledger.flow f on f.flow_no = r.flow_no
   where $7::boolean and $8::bigint > 0 and r.taken_by = $8::bigint
     and ($2::text[] is null or f.tenant = any ($2::text[])) and ($3::text is null or f.tenant = $3::text)
     and ($4::text is null or f.kind = $4::text)
     and ($5::timestamptz is null or (r.parked_at, r.item_no) < ($5::timestamptz, $6::bigint))
   order by r.parked_at desc, r.item_no desc limit $1::integer)
),
page as materialized (
  select r.*,
    row_number() over (order by case when not $7::boolean then r.parked_at end, case when not $7::boolean then r.item_no end,
      r.parked_at desc, r.item_no desc) as ord
  from found r
)
select i.id, i.item_no, f.tenant, f.kind, f.lane, i.business_key, i.cycle, i.effective_date, i.due_at,
  r.parked_at, r.reason, r.attempt, r.starts, w.name as taken_by, r.taken_at, i.payload::text as payload, k.redacted_fields
from (select r.* from page r order by r.ord limit $1::integer) r
join ledger.due_item i on i.effective_date = r.effective_date and i.item_no = r.item_no
join ledger.flow f on f.flow_no = r.flow_no
join ledger.kind k on k.kind_no = f.kind_no
left join ledger.actor w on w.actor_no = r.taken_by
order by r.ord
