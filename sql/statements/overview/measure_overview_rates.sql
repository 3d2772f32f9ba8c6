-- Measure how many items of each flow ended a second, by the latest runs, up to a limit.
-- returns: one
-- roles: service
-- $1 runs_max integer
-- index: none
-- locks: overview_reader row (for update); overview_flow rows
select ledger.measure_overview_rates($1::integer) as flows
