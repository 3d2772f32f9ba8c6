-- Record a calendar's first or next version if its document differs from the newest; the same document again changes nothing.
-- returns: one
-- roles: operator
-- $1 tenant text
-- $2 name text
-- $3 document jsonb
-- $4 valid_to date
-- $5 source text
-- $6 actor_no bigint
-- index: calendar_tenant_name_version_key
-- locks: none (lock_calendar comes before, in a statement of its own: this one must see the commit that it waited for)
with latest as materialized (
  select c.calendar_no, c.version, c.document
  from ledger.calendar c where c.tenant = $1::text and c.name = $2::text order by c.version desc limit 1
),
made as (
  insert into ledger.calendar (tenant, name, version, document, valid_to, source, created_at, actor_no)
  select $1::text, $2::text, coalesce((select l.version from latest l), 0) + 1, $3::jsonb, $4::date, $5::text,
    ledger.now(), $6::bigint
  where not exists (select from latest l where l.document = $3::jsonb)
  returning calendar_no, version
)
select calendar_no, version, true as changed from made
union all
select calendar_no, version, false from latest where not exists (select from made)
