-- Let statements of this transaction drop rows whose item does not exist; only after lock_partitions.
-- returns: one
-- index: none
-- locks: none
select set_config('ledger.orphans', 'dropped', true)
