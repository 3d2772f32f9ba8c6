-- List findings, oldest first, a page at a time; only open ones on request.
-- returns: zero or more
-- roles: auditor, operator, reconciler
-- $1 open_only boolean
-- $2 tenant text
-- $3 type text
-- $4 after_seen_at timestamptz
-- $5 after_id uuid
-- $6 page_size integer
-- $7 tenants text[]
-- $8 kind text
-- index: finding_seen_idx
-- locks: none
select f.id, f.type, f.severity, f.tenant, f.kind, f.subject, f.item_id, f.business_key, f.effective_date, f.due_at,
  f.sentence, f.expected, f.actual, f.terms, f.opened_count, f.first_seen_at, f.last_seen_at, f.closed_at, f.resolution,
  f.reason, f.reconciliation_no
from ledger.finding f
where (not $1::boolean or f.closed_at is null)
  and ($2::text is null or f.tenant = $2::text)
  and ($3::text is null or f.type = $3::text)
  and ($4::timestamptz is null or (f.first_seen_at, f.id) > ($4::timestamptz, $5::uuid))
  and ($7::text[] is null or f.tenant = any ($7::text[])) and ($8::text is null or f.kind = $8::text)
order by f.first_seen_at, f.id
limit $6::integer
