-- Record why proposed repairs are not executed, and what they would do as they were judged; those that ended do not change.
-- returns: zero or more
-- roles: reconciler
-- $1 ids uuid[]
-- $2 reasons text[]
-- $3 woulds text[]
-- $4 afters text[]
-- index: repair_pkey
-- locks: repair rows (for update)
update ledger.repair r set held_because = u.reason, judged_at = ledger.now(),
  command = r.command || jsonb_build_object('would', u.would, 'after', u.after)
from unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) u (id, reason, would, after)
where r.id = u.id and r.status = 'proposed'
returning r.id
