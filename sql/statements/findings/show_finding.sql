-- Show one finding, who resolved it, and its repairs, oldest first.
-- returns: zero or one
-- roles: auditor, operator
-- $1 id uuid
-- $2 tenants text[]
-- index: none
-- locks: none
select f.id, f.type, f.severity, f.tenant, f.kind, f.subject, f.item_id, f.business_key, f.effective_date, f.due_at,
  f.sentence, f.expected, f.actual, f.opened_count, f.first_seen_at, f.last_seen_at, f.closed_at, f.resolution, f.reason,
  a.name as resolved_by, w.name as taken_by, f.taken_at,
  (
    select coalesce(jsonb_agg(jsonb_build_object(
      'id', r.id, 'action', r.action, 'status', r.status, 'would', r.command ->> 'would',
      'before', r.command ->> 'before', 'after', r.command ->> 'after', 'proposed_at', r.proposed_at,
      'proposed_by', p.name, 'held_because', r.held_because, 'judged_at', r.judged_at, 'approved_by', c.name,
      'approval_reason', r.approval_reason, 'approved_over', r.approved_over, 'executed_at', r.executed_at, 'outcome', r.outcome) order by r.proposed_at, r.id), '[]')
    from ledger.repair r
    join ledger.actor p on p.actor_no = r.proposed_by
    left join ledger.actor c on c.actor_no = r.approved_by
    where r.finding_id = f.id
  ) as repairs,
  k.redacted_fields
from ledger.finding f
left join ledger.kind k on k.tenant = f.tenant and k.name = f.kind
left join ledger.actor a on a.actor_no = f.resolved_by
left join ledger.actor w on w.actor_no = f.taken_by
where f.id = $1::uuid and ($2::text[] is null or f.tenant = any ($2::text[]))
