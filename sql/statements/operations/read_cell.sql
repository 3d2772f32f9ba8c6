-- Read which cell this ledger is.
-- returns: one
-- roles: reconciler
-- index: none
-- locks: none
select c.cell_no from ledger.cell c
