-- Give recorded domain events of these types in the order of their numbers, a page at a time, for COPY in binary form.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 types text[]
-- $2 after_event_no bigint
-- $3 page_size integer
-- index: event_pkey
-- locks: none
select event_no, received_at, concat_ws(chr(31), tenant, type, body::text) as event
from ledger.event
where event_no > $2::bigint and type = any($1::text[])
order by event_no
limit $3::integer
