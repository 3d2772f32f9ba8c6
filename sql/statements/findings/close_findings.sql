-- Close open findings that no pass from this number on found, each with its resolution.
-- returns: zero or more
-- roles: reconciler
-- $1 reconciliation_no bigint
-- $2 ids uuid[]
-- $3 resolutions text[]
-- index: finding_pkey
-- locks: finding rows (for update, id ascending)
with cleared as materialized (
  select f.id, u.resolution
  from unnest($2::uuid[], $3::text[]) u (id, resolution)
  join ledger.finding f on f.id = u.id
  where f.closed_at is null and f.reconciliation_no < $1::bigint
  order by f.id
  for update of f
)
update ledger.finding f set closed_at = ledger.now(), resolution = c.resolution, reason = 'cleared',
  taken_by = null, taken_at = null
from cleared c
where f.id = c.id
returning f.id, f.resolution
