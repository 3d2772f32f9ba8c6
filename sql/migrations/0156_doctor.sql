-- Whoever works with the ledger may ask whether its schema is up to date, as `dueledger doctor` does.
grant usage on schema ledger_migration to ledger_worker, ledger_auditor;
grant select on ledger_migration.applied to ledger_worker, ledger_auditor;
