-- Let statements of this transaction drop rows whose item does not exist; only after lock_partitions.
-- returns: one
-- roles: allocator, outcome_intake, pull_worker, reconciler, upkeep, worker
-- index: none
-- locks: none
select set_config('ledger.orphans', 'dropped', true)
