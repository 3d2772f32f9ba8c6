-- Give the recorded domain events of these types in a range of numbers, for COPY in binary form.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 types text[]
-- $2 from_event_no bigint
-- $3 to_event_no bigint
-- index: event_pkey
-- locks: none
select event_no, received_at, concat_ws(chr(31), tenant, type, body::text) as event
from ledger.event
where event_no >= $2::bigint and event_no < $3::bigint and type = any($1::text[])
