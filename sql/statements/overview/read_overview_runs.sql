-- Add what runs completed to the overview, of about so many items; 0: all are read.
-- returns: one
-- roles: service
-- $1 items_max integer
-- index: none
-- locks: overview_reader row (for update); overview rows
select ledger.read_overview_runs($1::integer) as items
