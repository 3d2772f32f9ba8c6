-- Emit items as a service does in bulk; returns how many are new.
-- returns: one
-- roles: owner
-- $1 tenants text[]
-- $2 kinds text[]
-- $3 business_keys text[]
-- $4 effective_dates date[]
-- $5 due_ats timestamptz[]
-- $6 payloads text[]
-- index: none
-- locks: none
select count(*) filter (where e.created)
from ledger.emit_arrays($1::text[], $2::text[], $3::text[], $4::date[], $5::timestamptz[], $6::text[]) e
