-- Read the number of the newest migration that was applied, and the least that code must ship to use the schema.
-- returns: one
-- roles: alerter, allocator, auditor, intake, materialiser, operator, outcome_intake, reconciler, relay, service, worker
-- index: none
-- locks: none
select v.number, v.code_min from ledger.schema_version() v
