-- List recorded domain events of these types in the order of their numbers, a page at a time.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 types text[]
-- $2 after_event_no bigint
-- $3 page_size integer
-- index: event_pkey
-- locks: none
select event_no, tenant, source, id, type, occurred_at, subject, business_key, body, traceparent, received_at
from ledger.event
where event_no > $2::bigint and type = any($1::text[])
order by event_no
limit $3::integer
