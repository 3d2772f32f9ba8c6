-- Find an event of the caller by its number.
-- returns: zero or one
-- roles: auditor
-- $1 event_no bigint
-- $2 tenants text[]
-- index: event_pkey
-- locks: none
select e.event_no, e.occurred_at, e.tenant, e.source, e.id
from ledger.event e
where e.event_no = $1::bigint and ($2::text[] is null or e.tenant = any ($2::text[]))
limit 1
