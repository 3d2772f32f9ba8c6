-- Read an open finding of these tenants, and after it the open findings that may forbid its repair.
-- returns: zero or more
-- roles: approver, auditor
-- $1 finding uuid
-- $2 tenants text[]
-- index: finding_open_idx
-- locks: none
with meant as materialized (
  select f.*
  from ledger.finding f
  where f.id = $1::uuid and f.closed_at is null and ($2::text[] is null or f.tenant = any ($2::text[]))
),
grounds as (
  select m.* from meant m
  union all
  select f.*
  from meant m
  join ledger.finding f
    on f.closed_at is null and f.type in ('TAMPERED', 'SOURCE_FAILED') and f.tenant in (m.tenant, '*') and f.kind in (m.kind, '*')
      and f.item_id is null and f.id <> m.id
)
select g.id, g.type, g.tenant, g.kind, g.subject, g.item_id, g.business_key, g.effective_date, g.due_at, g.sentence, g.expected, g.actual,
  g.terms, g.opened_count, g.closed_at
from grounds g
order by g.id <> $1::uuid, g.id
