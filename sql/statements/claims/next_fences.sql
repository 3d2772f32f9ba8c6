-- Draw fences from the one sequence; none is ever drawn twice.
-- returns: zero or more
-- roles: allocator, pull_worker
-- $1 count integer
-- index: none
-- locks: none
select nextval('ledger.fence') as fence from generate_series(1, $1::integer)
