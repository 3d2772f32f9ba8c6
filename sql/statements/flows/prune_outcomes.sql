-- Delete the outcome counts of circuits that were removed.
-- returns: zero
-- roles: upkeep
-- index: none
-- locks: flow_outcome rows (for update)
delete from ledger.flow_outcome o
using ledger.flow f
where f.flow_no = o.flow_no and f.circuit_failure_ratio is null
