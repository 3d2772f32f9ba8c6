-- Record a person's resolution of open findings: explained, accepted, carried forward or a false positive.
-- returns: zero or more
-- roles: approver
-- $1 ids uuid[]
-- $2 resolution text
-- $3 reason text
-- $4 actor_no bigint
-- index: finding_pkey
-- locks: finding rows (for update, id ascending)
with judged as materialized (
  select f.id from ledger.finding f where f.id = any($1::uuid[]) and f.closed_at is null order by f.id for update
)
update ledger.finding f set
  resolution = $2::text, reason = $3::text, resolved_by = $4::bigint, closed_at = ledger.now()
from judged j
where f.id = j.id and $2::text not in ('open', 'repaired')
returning f.id
