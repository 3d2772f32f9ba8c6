-- Record how proposed repairs ended: executed or refused, by whom, with what result.
-- returns: zero or more
-- roles: reconciler
-- $1 ids uuid[]
-- $2 statuses text[]
-- $3 outcomes text[]
-- $4 actor_no bigint
-- index: repair_pkey
-- locks: repair rows (for update)
update ledger.repair r set
  status = u.status, outcome = u.outcome::jsonb, executed_at = ledger.now(), executed_by = $4::bigint
from unnest($1::uuid[], $2::text[], $3::text[]) u (id, status, outcome)
where r.id = u.id and r.status = 'proposed'
returning r.id
