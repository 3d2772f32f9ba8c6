-- List the migrations that were applied, with the checksums of their files then.
-- returns: any
-- roles: auditor, operator
-- index: none
-- locks: none
select a.name, a.checksum from ledger_migration.applied a
