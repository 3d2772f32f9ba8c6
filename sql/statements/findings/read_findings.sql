-- Read some findings with who has taken each and the status of its last repair, oldest first.
-- returns: zero or more
-- roles: auditor
-- $1 ids uuid[]
-- $2 tenants text[]
-- index: repair_finding_idx
-- locks: none
select f.id, f.type, f.severity, f.tenant, f.kind, f.subject, f.item_id, f.business_key, f.effective_date, f.due_at,
  f.sentence, f.expected, f.actual, f.opened_count, f.first_seen_at, f.last_seen_at, f.closed_at, f.resolution, f.reason,
  w.name as taken_by, f.taken_at, k.redacted_fields, r.status as repair_status
from unnest($1::uuid[]) u (id)
cross join lateral (select f.* from ledger.finding f where f.id = u.id offset 0) f
left join ledger.kind k on k.tenant = f.tenant and k.name = f.kind
left join ledger.actor w on w.actor_no = f.taken_by
left join lateral (
  select r.status from ledger.repair r
  where r.finding_id = f.id
  order by r.proposed_at desc, r.id desc limit 1
) r on true
where $2::text[] is null or f.tenant = any ($2::text[])
order by f.first_seen_at, f.id
