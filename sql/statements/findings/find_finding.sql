-- Find the tenant of a finding, and whether it is open.
-- returns: zero or one
-- roles: approver
-- $1 id uuid
-- $2 tenants text[]
-- index: none
-- locks: none
select f.tenant, f.closed_at is null as is_open
from ledger.finding f
where f.id = $1::uuid and ($2::text[] is null or f.tenant = any ($2::text[]))
