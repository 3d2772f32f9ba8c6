-- Count the waiting and failed items of the flows that were counted longest ago; null: there is no flow.
-- returns: one
-- roles: service
-- $1 flows_max integer
-- $2 items_max integer
-- $3 is_far boolean
-- index: none
-- locks: overview_reader row (for update); overview and overview_flow rows
select ledger.count_overview_waiting($1::integer, $2::integer, $3::boolean) as age_seconds
