-- Make the table partitions that claims and runs of some days need: the load of a benchmark.
-- returns: zero or more
-- roles: owner
-- $1 days date[]
-- index: none
-- locks: none
select ledger.make_partition(p.parent, m.month, 1000) as made
from unnest(array['claim', 'run']) p (parent)
cross join (select distinct date_trunc('month', d)::date as month from unnest($1::date[]) d) m
