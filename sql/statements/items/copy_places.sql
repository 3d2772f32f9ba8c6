-- Give the number of each item that waits, is parked, claimed or running, once for each of these, for COPY in binary form.
-- returns: zero or more
-- roles: auditor, reconciler
-- index: none
-- locks: none
select p.item_no from ledger.pending p
union all
select r.item_no from ledger.review r
union all
-- A run beyond the end of its claim has no item there.
select o.item_no from ledger.open_item o where o.item_no is not null
