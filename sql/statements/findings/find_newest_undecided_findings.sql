-- Find open findings that a person decides, and those that somebody has taken, newest first; on request those of one who took them, or of nobody (0).
-- returns: zero or more
-- roles: auditor
-- $1 tenant text
-- $2 kind text
-- $3 taken_by bigint
-- $4 limit integer
-- $5 tenants text[]
-- $6 after_seen_at timestamptz
-- $7 after_id uuid
-- index: finding_taken_idx, finding_undecided_idx, finding_undecided_tenant_idx
-- locks: none
-- Of each tenant so many are read as a page has: what others have costs nothing.
with scope as materialized (
  select distinct t.tenant
  from unnest(case
    when $1::text is null then $5::text[]
    when $5::text[] is null or $1::text = any ($5::text[]) then array[$1::text] end) t (tenant)
  where coalesce($3::bigint, 0) = 0
),
place as materialized (
  select coalesce($6::timestamptz, 'infinity') as at, coalesce($7::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff') as id
),
found as materialized (
  (select f.id, f.first_seen_at
   from ledger.finding f
   where coalesce($3::bigint, 0) = 0 and $1::text is null and $5::text[] is null
     and f.closed_at is null and (ledger.needs_person(f.type) or f.taken_by is not null)
     and ($2::text is null or f.kind = $2::text) and ($3::bigint is null or f.taken_by is null)
     and (f.first_seen_at, f.id) < (select p.at, p.id from place p)
   order by f.first_seen_at desc, f.id desc limit $4::integer)
  union all
  (select x.id, x.first_seen_at
   from scope s
   cross join lateral (
     select f.id, f.first_seen_at
     from ledger.finding f
     where f.tenant = s.tenant and f.closed_at is null and (ledger.needs_person(f.type) or f.taken_by is not null)
       and ($2::text is null or f.kind = $2::text) and ($3::bigint is null or f.taken_by is null)
       and (f.first_seen_at at time zone 'UTC', f.id) < (select p.at at time zone 'UTC', p.id from place p)
     order by f.first_seen_at at time zone 'UTC' desc, f.id desc limit $4::integer  -- ordered like the index
   ) x)
  union all
  (select f.id, f.first_seen_at
   from ledger.finding f
   where $3::bigint > 0 and f.taken_by = $3::bigint
     and ($1::text is null or f.tenant = $1::text) and ($5::text[] is null or f.tenant = any ($5::text[]))
     and ($2::text is null or f.kind = $2::text)
     and (f.first_seen_at, f.id) < (select p.at, p.id from place p)
   order by f.first_seen_at desc, f.id desc limit $4::integer)
)
select n.id from found n order by n.first_seen_at desc, n.id desc limit $4::integer
