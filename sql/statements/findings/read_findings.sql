-- Read some findings with who has taken each, oldest first.
-- returns: zero or more
-- roles: auditor
-- $1 ids uuid[]
-- $2 tenants text[]
-- index: none
-- locks: none
select f.id, f.type, f.severity, f.tenant, f.kind, f.subject, f.item_id, f.business_key, f.effective_date, f.due_at,
  f.sentence, f.expected, f.actual, f.opened_count, f.first_seen_at, f.last_seen_at, f.closed_at, f.resolution, f.reason,
  w.name as taken_by, f.taken_at, k.redacted_fields
from unnest($1::uuid[]) u (id)
cross join lateral (select f.* from ledger.finding f where f.id = u.id offset 0) f
left join ledger.kind k on k.tenant = f.tenant and k.name = f.kind
left join ledger.actor w on w.actor_no = f.taken_by
where $2::text[] is null or f.tenant = any ($2::text[])
order by f.first_seen_at, f.id
