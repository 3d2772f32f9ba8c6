-- Record findings or repairs of a report.
-- returns: zero
-- roles: reconciler
-- $1 reconciliation_no bigint
-- $2 list text
-- $3 first_row_no bigint
-- $4 tenants text[]
-- $5 contents text[]
-- index: none
-- locks: none
insert into ledger.report_row (reconciliation_no, list, tenant, row_no, content)
select $1::bigint, $2::text, u.tenant, $3::bigint + u.ord - 1, u.content::json
from unnest($4::text[], $5::text[]) with ordinality u (tenant, content, ord)
