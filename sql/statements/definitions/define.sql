-- Create a definition, or its next version; the document of the newest version again, not effective earlier, changes nothing.
-- returns: one
-- roles: operator
-- $1 tenant text
-- $2 name text
-- $3 kind text
-- $4 event_type text
-- $5 document jsonb
-- $6 effective_from timestamptz
-- $7 actor_no bigint
-- index: definition_tenant_name_version_key
-- locks: materialised rows (for update; lock_versions comes before, in a statement of its own: this one must see what it waited for)
with latest as materialized (
  select d.definition_no, d.version, d.document, d.effective_from
  from ledger.definition d where d.tenant = $1::text and d.name = $2::text order by d.version desc limit 1
),
made as (
  insert into ledger.definition (
    tenant, name, version, kind, event_type, document, effective_from, created_at, actor_no)
  select $1::text, $2::text, coalesce((select l.version from latest l), 0) + 1, $3::text, $4::text, $5::jsonb,
    coalesce($6::timestamptz, ledger.now()), ledger.now(), $7::bigint
  where not exists (
    select from latest l
    where l.document = $5::jsonb and l.effective_from <= coalesce($6::timestamptz, ledger.now()))
  returning definition_no, version, effective_from
),
before as materialized (
  select m.definition_no, m.materialised_until
  from ledger.definition d join ledger.materialised m on m.definition_no = d.definition_no
  where d.tenant = $1::text and d.name = $2::text
),
ended as (
  update ledger.materialised m set ends_at = least(m.ends_at, n.effective_from)
  from before b, made n where m.definition_no = b.definition_no
),
-- An event rule, or the declaration of a kind, that follows a schedule is expanded, to nothing, as far as the schedule was:
-- so that it takes over.
scheduled as (
  insert into ledger.materialised (definition_no, materialised_until, ends_at)
  select n.definition_no, n.effective_from,
    case when $4::text is null and $5::jsonb ? 'when' then 'infinity'
      else (select greatest(max(b.materialised_until), n.effective_from + interval '1 second') from before b) end
  from made n
  where $4::text is null and $5::jsonb ? 'when' or exists (select from before)
)
select definition_no, version, true as changed from made
union all
select definition_no, version, false from latest where not exists (select from made)
