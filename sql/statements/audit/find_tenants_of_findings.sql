-- Find the tenants of findings, and of repairs by their findings.
-- returns: zero or more, one for each id that exists
-- roles: approver
-- $1 ids uuid[]
-- index: finding_pkey, repair_pkey
-- locks: none
with repaired as materialized (
  select r.id, r.finding_id from ledger.repair r where r.id = any ($1::uuid[])
)
select f.id, f.tenant from ledger.finding f where f.id = any ($1::uuid[])
union all
select r.id, f.tenant from repaired r join ledger.finding f on f.id = r.finding_id
