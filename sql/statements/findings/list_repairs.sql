-- List repairs with their findings' types, oldest first, a page at a time; only those of one pass's findings on request.
-- returns: zero or more
-- roles: reconciler
-- $1 seen_since_reconciliation_no bigint
-- $2 after_proposed_at timestamptz
-- $3 after_id uuid
-- $4 page_size integer
-- index: none
-- locks: none
select r.id, r.finding_id, f.type, f.tenant, f.kind, f.subject, r.action, r.status, r.proposed_at, p.name as proposed_by,
  r.held_because, r.approved_at, a.name as approved_by, r.executed_at, e.name as executed_by, r.command, r.outcome
from ledger.repair r
join ledger.finding f on f.id = r.finding_id
join ledger.actor p on p.actor_no = r.proposed_by
left join ledger.actor a on a.actor_no = r.approved_by
left join ledger.actor e on e.actor_no = r.executed_by
where ($1::bigint is null or f.reconciliation_no >= $1::bigint)
  and ($2::timestamptz is null or (r.proposed_at, r.id) > ($2::timestamptz, $3::uuid))
order by r.proposed_at, r.id
limit $4::integer
