-- Let the overview count flows that are new, up to a limit.
-- returns: one
-- roles: service
-- $1 limit integer
-- index: none
-- locks: none
select ledger.add_overview_flows($1::integer) as added
