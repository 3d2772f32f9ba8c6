-- List the findings that are open, that a pass found although they are resolved, that were open in a period, or are of something due in it, oldest first, a page at a time.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 from_at timestamptz
-- $2 to_at timestamptz
-- $3 after_seen_at timestamptz
-- $4 after_id uuid
-- $5 page_size integer
-- $6 reconciliation_no bigint
-- index: finding_seen_idx
-- locks: none
select f.id, f.type, f.severity, f.tenant, f.kind, f.subject, f.item_id, f.business_key, f.effective_date, f.due_at,
  f.sentence, f.expected, f.actual, f.opened_count, f.first_seen_at, f.last_seen_at, f.closed_at, f.resolution, f.reason
from ledger.finding f
where (
    f.closed_at is null
    or f.reconciliation_no >= $6::bigint and f.severity <> 'information'
    or f.closed_at >= $1::timestamptz and f.first_seen_at < coalesce($2::timestamptz, 'infinity')
    or f.due_at >= $1::timestamptz and f.due_at < coalesce($2::timestamptz, 'infinity'))
  and ($3::timestamptz is null or (f.first_seen_at, f.id) > ($3::timestamptz, $4::uuid))
order by f.first_seen_at, f.id
limit $5::integer
