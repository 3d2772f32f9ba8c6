-- Prevent new partitions until the transaction ends; false if one is being made.
-- returns: one
-- index: none
-- locks: partition_span (share row exclusive, nowait)
select ledger.lock_partitions() as locked
