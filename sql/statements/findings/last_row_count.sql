-- Return how many rows a source had when a pass over all dates read it last.
-- returns: zero or one
-- roles: auditor, reconciler
-- $1 name text
-- index: population_name_idx
-- locks: none
select p.row_count
from ledger.population p
join ledger.reconciliation r on r.reconciliation_no = p.reconciliation_no
where p.name = $1::text and p.failure is null
  and r.scope ->> 'from_date' <= '1970-01-01' and r.scope ->> 'to_date' >= '2200-01-01'
order by p.population_no desc
limit 1
