-- List recorded domain events by their numbers.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 event_nos bigint[]
-- index: event_pkey
-- locks: none
select event_no, tenant, source, id, type, occurred_at, subject, business_key, body, traceparent, received_at
from ledger.event
where event_no = any($1::bigint[])
order by event_no
