-- List the findings of an item, newest first, each with its last repair.
-- returns: zero or more
-- roles: auditor
-- $1 item_id uuid
-- $2 tenants text[]
-- $3 limit integer
-- index: finding_item_idx, repair_finding_idx
-- locks: none
-- An item has a few findings: they are sorted after they were found by it.
with found as materialized (
  select f.id, f.type, f.severity, f.sentence, f.resolution, f.first_seen_at
  from ledger.finding f
  where f.item_id = $1::uuid and ($2::text[] is null or f.tenant = any ($2::text[]))
)
select f.id, f.type, f.severity, f.sentence, f.resolution, f.first_seen_at, r.action, r.status
from found f
left join lateral (
  select r.action, r.status from ledger.repair r
  where r.finding_id = f.id
  order by r.proposed_at desc, r.id desc limit 1
) r on true
order by f.first_seen_at desc, f.id
limit $3::integer
