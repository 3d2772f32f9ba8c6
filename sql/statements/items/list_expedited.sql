-- List the items that a named person expedited, or triggered beside a schedule's occurrences.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 after_item_no bigint
-- $2 limit integer
-- index: expedited_pkey
-- locks: none
select x.item_no
from ledger.expedited x join ledger.actor a on a.actor_no = x.actor_no and a.kind = 'person'
where x.item_no > $1::bigint
order by x.item_no
limit $2::integer
