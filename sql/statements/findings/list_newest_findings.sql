-- List findings, newest first, a page at a time, each with the status of its last repair; only open ones on request.
-- returns: zero or more
-- roles: auditor, operator
-- $1 open_only boolean
-- $2 tenant text
-- $3 type text
-- $4 after_seen_at timestamptz
-- $5 after_id uuid
-- $6 page_size integer
-- $7 tenants text[]
-- $8 kind text
-- $9 effective_date date
-- index: finding_seen_idx, finding_tenant_idx, repair_finding_idx
-- locks: none
-- Of each tenant so many are read as a page has: what others have costs nothing and shows nowhere.
with tenants as materialized (
  select distinct t.tenant from unnest($7::text[]) t (tenant) where $2::text is null or t.tenant = $2::text
  union all
  select $2::text where $7::text[] is null and $2::text is not null
),
found as materialized (
  select f.id, f.first_seen_at
  from tenants t
  cross join lateral (
    (select f.id, f.first_seen_at from ledger.finding f
     where $1::boolean and f.tenant = t.tenant and f.closed_at is null
       and ($3::text is null or f.type = $3::text) and ($8::text is null or f.kind = $8::text)
       and ($9::date is null or f.effective_date = $9::date)
       and ($4::timestamptz is null or (f.first_seen_at, f.id) < ($4::timestamptz, $5::uuid))
     order by f.first_seen_at desc, f.id desc limit $6::integer)
    union all
    (select f.id, f.first_seen_at from ledger.finding f
     where not $1::boolean and f.tenant = t.tenant
       and ($3::text is null or f.type = $3::text) and ($8::text is null or f.kind = $8::text)
       and ($9::date is null or f.effective_date = $9::date)
       and ($4::timestamptz is null or (f.first_seen_at, f.id) < ($4::timestamptz, $5::uuid))
     order by f.first_seen_at desc, f.id desc limit $6::integer)
  ) f
  union all
  (select f.id, f.first_seen_at from ledger.finding f
   where $1::boolean and $2::text is null and $7::text[] is null and f.closed_at is null
     and ($3::text is null or f.type = $3::text) and ($8::text is null or f.kind = $8::text)
     and ($9::date is null or f.effective_date = $9::date)
     and ($4::timestamptz is null or (f.first_seen_at, f.id) < ($4::timestamptz, $5::uuid))
   order by f.first_seen_at desc, f.id desc limit $6::integer)
  union all
  (select f.id, f.first_seen_at from ledger.finding f
   where not $1::boolean and $2::text is null and $7::text[] is null
     and ($3::text is null or f.type = $3::text) and ($8::text is null or f.kind = $8::text)
     and ($9::date is null or f.effective_date = $9::date)
     and ($4::timestamptz is null or (f.first_seen_at, f.id) < ($4::timestamptz, $5::uuid))
   order by f.first_seen_at desc, f.id desc limit $6::integer)
)
select f.id, f.type, f.severity, f.tenant, f.kind, f.subject, f.item_id, f.business_key, f.effective_date, f.due_at,
  f.sentence, f.expected, f.actual, f.terms, f.opened_count, f.first_seen_at, f.last_seen_at, f.closed_at, f.resolution,
  f.reason, f.reconciliation_no, w.name as taken_by, f.taken_at, k.redacted_fields, r.status as repair_status
from (select f.id from found f order by f.first_seen_at desc, f.id desc limit $6::integer) n
join ledger.finding f on f.id = n.id
left join ledger.kind k on k.tenant = f.tenant and k.name = f.kind
left join ledger.actor w on w.actor_no = f.taken_by
left join lateral (
  select r.status from ledger.repair r
  where r.finding_id = f.id
  order by r.proposed_at desc, r.id desc limit 1
) r on true
order by f.first_seen_at desc, f.id desc
