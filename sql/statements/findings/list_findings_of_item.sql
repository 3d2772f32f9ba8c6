-- List the findings of an item, newest first, each with who has taken it and its last repair.
-- returns: zero or more
-- roles: auditor
-- $1 item_id uuid
-- $2 tenants text[]
-- $3 limit integer
-- index: finding_item_idx, kind_tenant_name_key, repair_finding_idx
-- locks: none
-- An item has a few findings: they are sorted after they were found by it.
with found as materialized (
  select f.*
  from ledger.finding f
  where f.item_id = $1::uuid and ($2::text[] is null or f.tenant = any ($2::text[]))
)
select f.id, f.type, f.severity, f.tenant, f.kind, f.subject, f.item_id, f.business_key, f.effective_date, f.due_at,
  f.sentence, f.expected, f.actual, f.terms, f.opened_count, f.first_seen_at, f.last_seen_at, f.closed_at, f.resolution,
  f.reason, f.reconciliation_no, w.name as taken_by, f.taken_at, k.redacted_fields, r.action, r.status as repair_status
from found f
left join ledger.kind k on k.tenant = f.tenant and k.name = f.kind
left join ledger.actor w on w.actor_no = f.taken_by
left join lateral (
  select r.action, r.status from ledger.repair r
  where r.finding_id = f.id
  order by r.proposed_at desc, r.id desc limit 1
) r on true
order by f.first_seen_at desc, f.id
limit $3::integer
