-- Read which cell this ledger is.
-- returns: one
-- roles: auditor, reconciler
-- index: none
-- locks: none
select c.cell_no from ledger.cell c
