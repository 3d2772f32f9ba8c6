-- Lift the fences or the run numbers to the clock, if they are more than a second's worth behind it.
-- returns: one
-- roles: allocator, outcome_intake, service, worker
-- $1 name text
-- index: none
-- locks: sequence (access exclusive, only where it is lifted)
select ledger.lift_sequence($1::text)
