-- Record why proposed repairs are not executed; those that ended do not change.
-- returns: zero or more
-- roles: reconciler
-- $1 ids uuid[]
-- $2 reasons text[]
-- index: repair_pkey
-- locks: repair rows (for update)
update ledger.repair r set held_because = u.reason
from unnest($1::uuid[], $2::text[]) u (id, reason)
where r.id = u.id and r.status = 'proposed'
returning r.id
