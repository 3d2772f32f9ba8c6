-- List the findings or repairs of a report that is recorded, by tenant, oldest first, a page at a time.
-- returns: zero or more
-- roles: auditor
-- $1 reconciliation_no bigint
-- $2 list text
-- $3 tenants text[]
-- $4 after_tenant text
-- $5 after_row_no bigint
-- $6 limit integer
-- index: report_row_pkey
-- locks: none
select r.tenant, r.row_no, r.content::text as content
from ledger.report_row r
where r.reconciliation_no = $1::bigint and r.list = $2::text and ($3::text[] is null or r.tenant = any ($3::text[]))
  and ($4::text is null or (r.tenant, r.row_no) > ($4::text, $5::bigint))
order by r.tenant, r.row_no
limit $6::integer
