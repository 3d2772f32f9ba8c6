-- Count open findings of missing items by kind and effective date, after a place, and the items that are present beside them; up to a limit of findings, and of items of each row, is read.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 tenant text
-- $3 kind text
-- $4 after_tenant text
-- $5 after_kind text
-- $6 after_date date
-- $7 count_max integer
-- $8 limit integer
-- $9 present_max integer
-- index: finding_open_idx, due_item_flow_idx
-- locks: none
-- All are counted of each day but the last one that was read, of which there may be more.
with locked_default as (select from ledger.due_item_default),
tenants as materialized (
  select distinct t.tenant from unnest($1::text[]) t (tenant) where $2::text is null or t.tenant = $2::text
  union all
  select $2::text where $1::text[] is null and $2::text is not null
),
found as materialized (
  select f.tenant, f.kind, f.effective_date, f.due_at, f.first_seen_at
  from tenants t
  cross join lateral (
    select f.tenant, f.kind, f.effective_date, f.due_at, f.first_seen_at from ledger.finding f
    where f.type = 'MISSING' and f.closed_at is null and f.tenant = t.tenant and ($3::text is null or f.kind = $3::text)
      and ($4::text is null or (f.tenant, f.kind, f.effective_date) > ($4::text, $5::text, $6::date))
    order by f.kind, f.effective_date limit $7::integer
  ) f
  union all
  (select f.tenant, f.kind, f.effective_date, f.due_at, f.first_seen_at from ledger.finding f
   where $1::text[] is null and $2::text is null
     and f.type = 'MISSING' and f.closed_at is null and ($3::text is null or f.kind = $3::text)
     and ($4::text is null or (f.tenant, f.kind, f.effective_date) > ($4::text, $5::text, $6::date))
   order by f.tenant, f.kind, f.effective_date limit $7::integer)
)
select d.tenant, d.kind, d.effective_date, d.missing, d.missing_capped, d.first_due_at, d.first_seen_at,
  p.present, p.present >= $9::integer as present_capped, d.missing + p.present as expected,
  d.missing_capped or p.present >= $9::integer as expected_capped
from (
  select f.tenant, f.kind, f.effective_date, count(*)::integer as missing,
    (sum(count(*)) over ()) >= $7::integer
      and row_number() over (order by f.tenant desc, f.kind desc, f.effective_date desc) = 1 as missing_capped,
    min(f.due_at) as first_due_at, min(f.first_seen_at) as first_seen_at
  from (select f.* from found f order by f.tenant, f.kind, f.effective_date limit $7::integer) f
  group by f.tenant, f.kind, f.effective_date
  order by f.tenant, f.kind, f.effective_date
  limit $8::integer
) d
cross join lateral (
  select count(*)::integer as present
  from (
    select i.item_no
    from ledger.kind k join ledger.flow f on f.kind_no = k.kind_no
    cross join lateral (
      select i.item_no from ledger.due_item i
      where i.flow_no = f.flow_no and i.effective_date = d.effective_date limit $9::integer
    ) i
    where k.tenant = d.tenant and k.name = d.kind limit $9::integer
  ) i
) p
order by d.tenant, d.kind, d.effective_date
