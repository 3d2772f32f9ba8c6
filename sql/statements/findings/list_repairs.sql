-- List repairs with their findings' types, oldest first, a page at a time; on request those that wait, or were open at any time of a period.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 from_at timestamptz
-- $2 to_at timestamptz
-- $3 after_proposed_at timestamptz
-- $4 after_id uuid
-- $5 page_size integer
-- index: none
-- locks: none
select r.id, r.finding_id, f.type, f.tenant, f.kind, f.subject, r.action, r.status, w.waits, r.proposed_at,
  p.name as proposed_by, r.held_because, r.approved_at, a.name as approved_by, r.executed_at, e.name as executed_by, r.command, r.outcome
from ledger.repair r
join ledger.finding f on f.id = r.finding_id
join ledger.actor p on p.actor_no = r.proposed_by
cross join lateral (
  select r.status = 'proposed' and f.closed_at is null and f.opened_count = r.opened_count
) w (waits)
left join ledger.actor a on a.actor_no = r.approved_by
left join ledger.actor e on e.actor_no = r.executed_by
where (
    w.waits
    or r.proposed_at < coalesce($2::timestamptz, 'infinity')
      and coalesce(r.executed_at, f.closed_at, r.proposed_at) >= coalesce($1::timestamptz, '-infinity'))
  and ($3::timestamptz is null or (r.proposed_at, r.id) > ($3::timestamptz, $4::uuid))
order by r.proposed_at, r.id
limit $5::integer
