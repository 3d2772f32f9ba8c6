-- Approve proposed repairs in the name of a person who did not propose them, over the reasons to ask that they have; a pass executes them.
-- returns: exactly one per input
-- roles: approver
-- $1 ids uuid[]
-- $2 reason text
-- $3 actor_no bigint
-- $4 tenants text[]
-- index: repair_pkey
-- locks: repair rows (for update, id ascending)
with locked as materialized (
  select r.id, r.status, r.proposed_by, r.approved_at,
    -- A reason that came after an approval is approved by itself.
    r.approved_at is not null and coalesce(r.held_because is null or r.held_because = any (r.approved_over), false) as covered,
    not exists (
      select from ledger.finding f
      where f.id = r.finding_id and f.closed_at is null and f.opened_count = r.opened_count) as closed
  from ledger.repair r
  where r.id = any($1::uuid[])
    and ($4::text[] is null or exists (
      select from ledger.finding f where f.id = r.finding_id and f.tenant = any ($4::text[])))
  order by r.id for update
),
approved as (
  update ledger.repair r set approved_at = ledger.now(), approved_by = $3::bigint, approval_reason = $2::text,
    approved_over = array_remove(array_append(r.approved_over, r.held_because), null)
  from locked l
  where r.id = l.id and l.status = 'proposed' and not l.covered and l.proposed_by <> $3::bigint
    and not l.closed
  returning r.id
)
select u.id,
  case
    when l.id is null then 'unknown'
    when a.id is not null then 'done'
    when l.status <> 'proposed' then 'finished'
    when l.closed then 'closed'
    when l.proposed_by = $3::bigint then 'own'
    else 'approved'
  end as result
from unnest($1::uuid[]) with ordinality u (id, ord)
left join locked l on l.id = u.id
left join approved a on a.id = u.id
order by u.ord
