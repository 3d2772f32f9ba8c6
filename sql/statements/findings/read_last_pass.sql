-- Read the last pass of reconciliation.
-- returns: zero or one
-- roles: auditor
-- index: reconciliation_pkey
-- locks: none
select r.reconciliation_no, r.started_at, r.finished_at, r.as_of
from ledger.reconciliation r
order by r.reconciliation_no desc
limit 1
