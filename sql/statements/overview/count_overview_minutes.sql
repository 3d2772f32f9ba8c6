-- Count what was completed in each minute of the last hour by the next runs, up to limits.
-- returns: one
-- roles: service
-- $1 runs_max integer
-- $2 sampled_runs_max integer
-- $3 items_max integer
-- index: none
-- locks: overview_reader row (for update); overview_minute rows; overview_minute_run rows
select ledger.count_overview_minutes($1::integer, $2::integer, $3::integer) as runs
