-- Record the report of a reconciliation: of the whole ledger, and of each tenant.
-- returns: zero
-- roles: reconciler
-- $1 reconciliation_no bigint
-- $2 as_of timestamptz
-- $3 tenants text[]
-- $4 verdicts text[]
-- $5 sentences text[]
-- $6 findings_open bigint[]
-- $7 documents text[]
-- index: none
-- locks: none
insert into ledger.report (tenant, reconciliation_no, as_of, verdict, sentence, findings_open, document)
select u.tenant, $1::bigint, $2::timestamptz, u.verdict, u.sentence, u.findings_open, u.document::json
from unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[]) u (tenant, verdict, sentence, findings_open, document)
