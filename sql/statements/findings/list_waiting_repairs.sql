-- List proposed repairs of open findings, oldest first: what a person approves, and what a pass executes.
-- returns: zero or more
-- roles: auditor, operator
-- $1 tenant text
-- $2 kind text
-- $3 row_max integer
-- $4 tenants text[]
-- $5 after_proposed_at timestamptz
-- $6 after_id uuid
-- index: repair_proposed_idx
-- locks: none
select r.id, f.type, f.tenant, f.kind, f.business_key, r.action, r.command ->> 'before' as before,
  r.command ->> 'after' as after, r.command ->> 'would' as would, r.held_because, r.proposed_at, p.name as proposed_by,
  r.approved_at, a.name as approved_by, r.approval_reason, r.finding_id
from ledger.repair r
join ledger.finding f on f.id = r.finding_id
join ledger.actor p on p.actor_no = r.proposed_by
left join ledger.actor a on a.actor_no = r.approved_by
where r.status = 'proposed' and f.closed_at is null and f.opened_count = r.opened_count
  and ($1::text is null or f.tenant = $1::text) and ($2::text is null or f.kind = $2::text)
  and ($4::text[] is null or f.tenant = any ($4::text[]))
  and ($5::timestamptz is null or (r.proposed_at, r.id) > ($5::timestamptz, $6::uuid))
order by r.proposed_at, r.id
limit $3::integer
