-- Return how many rows a source had when a pass read it last.
-- returns: zero or one
-- roles: reconciler
-- $1 name text
-- index: population_name_idx
-- locks: none
select p.row_count
from ledger.population p
where p.name = $1::text and p.failure is null
order by p.population_no desc
limit 1
