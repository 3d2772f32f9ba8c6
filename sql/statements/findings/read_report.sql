-- Read the report of a reconciliation, of one of these tenants; '*' is the whole ledger.
-- returns: zero or one
-- roles: auditor
-- $1 reconciliation_no bigint
-- $2 tenants text[]
-- index: report_pkey
-- locks: none
select r.document::text as document
from ledger.report r
where r.reconciliation_no = $1::bigint and r.tenant = any ($2::text[])
limit 1
