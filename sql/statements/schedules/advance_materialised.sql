-- Move a definition's materialised watermark forward, never back, and record the tz database that expanded it.
-- returns: zero or more
-- roles: materialiser
-- $1 definition_nos bigint[]
-- $2 untils timestamptz[]
-- $3 tzdata text
-- index: materialised_pkey
-- locks: materialised rows (for update)
update ledger.materialised m
set materialised_until = greatest(m.materialised_until, u.until), failed_at = null, failure = null, tzdata = $3::text
from unnest($1::bigint[], $2::timestamptz[]) u (definition_no, until)
where m.definition_no = u.definition_no and (m.materialised_until < u.until or m.tzdata < $3::text collate "C")
returning m.definition_no
