-- Create a definition, or the next version of it where its document differs; the same document again changes nothing.
-- returns: one
-- $1 tenant text
-- $2 name text
-- $3 kind text
-- $4 event_type text
-- $5 document jsonb
-- $6 effective_from timestamptz
-- $7 actor_no integer
-- index: definition_tenant_name_version_key
-- locks: none (lock_definition comes before it, in a statement of its own: this one must see what it waited for)
with latest as materialized (
  select d.definition_no, d.version, d.document
  from ledger.definition d where d.tenant = $1::text and d.name = $2::text order by d.version desc limit 1
),
made as (
  insert into ledger.definition (
    tenant, name, version, kind, event_type, document, effective_from, created_at, actor_no)
  select $1::text, $2::text, coalesce((select l.version from latest l), 0) + 1, $3::text, $4::text, $5::jsonb,
    coalesce($6::timestamptz, ledger.now()), ledger.now(), $7::integer
  where not exists (select from latest l where l.document = $5::jsonb)
  returning definition_no, version, effective_from
),
scheduled as (
  insert into ledger.materialised (definition_no, materialised_until)
  select m.definition_no, m.effective_from from made m where $4::text is null
)
select definition_no, version, true as changed from made
union all
select definition_no, version, false from latest where not exists (select from made)
