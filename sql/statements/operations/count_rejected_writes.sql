-- Count rejected writes, by verb and reason.
-- returns: zero or more
-- roles: auditor, reconciler
-- index: none
-- locks: none
select verb, reason, count(*) as refused_count from ledger.rejected_write group by verb, reason order by verb, reason
