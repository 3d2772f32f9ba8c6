-- List every flow with its tenant, kind and the grace after which an item is overdue.
-- returns: zero or more
-- roles: auditor, reconciler
-- index: none
-- locks: none
select f.flow_no, k.tenant, k.name as kind, k.grace_seconds
from ledger.flow f join ledger.kind k on k.kind_no = f.kind_no
order by f.flow_no
