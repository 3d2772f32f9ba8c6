-- Record why other proposed repairs, for the same openings of findings as these, are not executed.
-- returns: zero or more
-- roles: reconciler
-- $1 ids uuid[]
-- $2 reason text
-- index: repair_pkey, repair_finding_idx
-- locks: repair rows (for update, id ascending)
with superseded as materialized (
  select r.id
  from ledger.repair n
  join ledger.repair r on r.finding_id = n.finding_id and r.opened_count = n.opened_count
  where n.id = any($1::uuid[]) and r.id <> all($1::uuid[]) and r.status = 'proposed'
    and r.held_because is distinct from $2::text
  order by r.id
  for update of r
)
update ledger.repair r set held_because = $2::text
from superseded s
where r.id = s.id and r.status = 'proposed'
returning r.id
