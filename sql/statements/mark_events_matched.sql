-- Note whether any rule matched each inbox event.
-- returns: zero
-- $1 event_nos bigint[]
-- $2 matched boolean[]
-- index: event_pkey
-- locks: event rows (for update)
update ledger.event e
set matched = u.matched
from unnest($1::bigint[], $2::boolean[]) u (event_no, matched)
where e.event_no = u.event_no and e.matched is distinct from u.matched
