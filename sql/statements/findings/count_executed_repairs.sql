-- Count the repairs that were executed in the last minute on business time.
-- returns: one
-- roles: reconciler
-- index: repair_executed_idx
-- locks: none
select count(*)
from ledger.repair r
where r.executed_at > ledger.now() - interval '1 minute' and r.status = 'executed'
