-- Prevent new partitions until the transaction ends; false if one is being made.
-- returns: one
-- roles: allocator, outcome_intake, pull_worker, reconciler, upkeep, worker
-- index: none
-- locks: partition_span (share row exclusive, nowait)
select ledger.lock_partitions() as locked
