-- List proposed repairs of open findings, newest first: `list_waiting_repairs` the other way; on request those whose finding one has taken, or nobody (0).
-- returns: zero or more
-- roles: auditor, operator
-- $1 tenant text
-- $2 kind text
-- $3 row_max integer
-- $4 tenants text[]
-- $5 after_proposed_at timestamptz
-- $6 after_id uuid
-- $7 taken_by bigint
-- index: finding_taken_idx, repair_finding_idx, repair_proposed_idx, repair_tenant_idx
-- locks: none
with scope as materialized (
  select distinct t.tenant
  from unnest(case
    when $1::text is null then $4::text[]
    when $4::text[] is null or $1::text = any ($4::text[]) then array[$1::text] end) t (tenant)
  where coalesce($7::bigint, 0) = 0
),
taken as materialized (
  select f.id, f.tenant, f.kind, f.opened_count from ledger.finding f where $7::bigint > 0 and f.taken_by = $7::bigint
),
chosen as materialized (
  (select r.id
   from ledger.repair r
   cross join lateral (
     select f.kind, f.closed_at, f.opened_count, f.taken_by from ledger.finding f where f.id = r.finding_id offset 0
   ) f
   where coalesce($7::bigint, 0) = 0 and $1::text is null and $4::text[] is null and r.status = 'proposed' and f.closed_at is null
     and f.opened_count = r.opened_count and ($2::text is null or f.kind = $2::text)
     and ($7::bigint is null or f.taken_by is null)
     and (r.proposed_at, r.id) < (coalesce($5::timestamptz, 'infinity'), coalesce($6::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
   order by r.proposed_at desc, r.id desc limit $3::integer)
  union all
  (select x.id
   from scope s
   cross join lateral (
     select r.id, r.proposed_at
     from ledger.repair r
     cross join lateral (
       select f.kind, f.closed_at, f.opened_count, f.taken_by from ledger.finding f where f.id = r.finding_id offset 0
     ) f
     where r.tenant = s.tenant and r.status = 'proposed' and f.closed_at is null
       and f.opened_count = r.opened_count and ($2::text is null or f.kind = $2::text)
       and ($7::bigint is null or f.taken_by is null)
       and (r.proposed_at at time zone 'UTC', r.id)
         < (coalesce($5::timestamptz, 'infinity') at time zone 'UTC', coalesce($6::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
     order by r.proposed_at at time zone 'UTC' desc, r.id desc limit $3::integer  -- ordered like the index
   ) x
   order by x.proposed_at desc, x.id desc limit $3::integer)
  union all
  (select r.id
   from taken f
   join ledger.repair r on r.finding_id = f.id and r.opened_count = f.opened_count
   where r.status = 'proposed'
     and ($1::text is null or f.tenant = $1::text) and ($4::text[] is null or f.tenant = any ($4::text[]))
     and ($2::text is null or f.kind = $2::text)
     and (r.proposed_at, r.id) < (coalesce($5::timestamptz, 'infinity'), coalesce($6::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
   order by r.proposed_at desc, r.id desc limit $3::integer)
)
select r.id, f.type, f.tenant, f.kind, f.business_key, r.action, r.command ->> 'before' as before,
  r.command ->> 'after' as after, r.command ->> 'would' as would, r.held_because, r.proposed_at, p.name as proposed_by,
  r.approved_at, a.name as approved_by, r.approval_reason, r.finding_id, w.name as taken_by, f.taken_at
from chosen c
join ledger.repair r on r.id = c.id
join ledger.finding f on f.id = r.finding_id
join ledger.actor p on p.actor_no = r.proposed_by
left join ledger.actor a on a.actor_no = r.approved_by
left join ledger.actor w on w.actor_no = f.taken_by
order by r.proposed_at desc, r.id desc
