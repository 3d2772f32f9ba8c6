-- Say up to when the schedules are materialised and with which tz database, and go on with the fences and runs after those of the load.
-- returns: zero or more
-- roles: owner
-- $1 until_at timestamptz
-- $2 tzdata text
-- index: none
-- locks: none
with marked as (update ledger.materialised set materialised_until = $1::timestamptz, tzdata = $2::text)
select setval('ledger.fence', max(c.fence)) as fence,
  setval(pg_get_serial_sequence('ledger.run', 'run_no'), max(c.fence)) as run_no
from ledger.claim c
