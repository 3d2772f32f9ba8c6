-- Count the items in flight for the overview again, up to a limit.
-- returns: one
-- roles: service
-- $1 items_max integer
-- index: none
-- locks: overview_reader row (for update); overview rows
select ledger.count_overview_in_flight($1::integer) as items
