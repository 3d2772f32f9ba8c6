-- Count the passes of reconciliation that have begun, and those of them that have ended.
-- returns: one
-- roles: owner
-- index: none
-- locks: none
select count(*) as begun, count(finished_at) as ended from ledger.reconciliation
