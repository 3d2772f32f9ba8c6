-- Find which of these findings are recorded, each as it would be if a pass found it again with this resolution and evidence.
-- returns: zero or more
-- roles: auditor
-- $1 ids uuid[]
-- $2 resolutions text[]
-- $3 expecteds text[]
-- $4 actuals text[]
-- index: finding_pkey
-- locks: none
select f.id, f.item_id, f.business_key, f.effective_date, f.due_at, f.opened_count, f.first_seen_at, f.closed_at,
  f.resolution, f.reason,
  ledger.finding_reopens(f.closed_at, f.resolution, f.reason, coalesce(ledger.is_decider(a.kind, a.name), false), u.resolution,
    ledger.is_same_difference(f.type, f.expected, f.actual, u.expected::jsonb, u.actual::jsonb)) as reopens
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) u (id, resolution, expected, actual)
join ledger.finding f on f.id = u.id
left join ledger.actor a on a.actor_no = f.resolved_by
