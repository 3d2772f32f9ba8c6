-- List the items that are claimed or running.
-- returns: zero or more
-- roles: auditor, reconciler
-- index: none
-- locks: none
select o.item_no from ledger.open_item o where o.item_no is not null
