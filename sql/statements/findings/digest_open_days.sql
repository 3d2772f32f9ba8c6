-- Digest, by effective date, which items wait, are parked, claimed or running.
-- returns: zero or more
-- roles: auditor, reconciler
-- index: none
-- locks: none
select o.effective_date, concat_ws('/', count(*), sum(hashint8extended(o.item_no, o.place))) as digest
from (
  select p.item_no, p.effective_date, 1 as place from ledger.pending p
  union all
  select r.item_no, r.effective_date, 2 from ledger.review r
  union all
  select c.item_no, c.effective_date, c.state from ledger.open_item c
  -- A run beyond the end of its claim has no item there.
  where c.item_no is not null
) o
group by o.effective_date
order by o.effective_date
