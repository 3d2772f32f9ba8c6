-- Definitions of one kind are found when one of them is put in force: they may not contradict each other.
-- Nothing is released yet, so no ledger with data waits for these locks.
-- squawk-ignore-file require-concurrent-index-creation

create index definition_kind_idx on ledger.definition (kind, tenant);
