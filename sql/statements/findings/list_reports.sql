-- List the reports of tenants, newest first, a page at a time; '*' is the whole ledger.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 before_no bigint
-- $3 after_tenant text
-- $4 limit integer
-- index: report_pkey
-- locks: none
select r.reconciliation_no, r.tenant, r.as_of, r.verdict, r.sentence, r.findings_open
from (select distinct unnest($1::text[])) t (tenant)
cross join lateral (
  select r.*
  from ledger.report r
  where r.tenant = t.tenant and r.reconciliation_no <= coalesce($2::bigint, 9223372036854775807)
    and ($2::bigint is null or r.reconciliation_no < $2::bigint
      or r.reconciliation_no = $2::bigint and r.tenant > $3::text)
  order by r.reconciliation_no desc
  limit $4::integer
) r
order by r.reconciliation_no desc, r.tenant
limit $4::integer
