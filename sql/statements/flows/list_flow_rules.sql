-- List every flow with its tenant, kind and the grace after which an item is overdue; a kind without a flow with none.
-- returns: zero or more
-- roles: auditor, reconciler
-- index: none
-- locks: none
select f.flow_no, k.tenant, k.name as kind, k.grace_seconds
from ledger.kind k left join ledger.flow f on f.kind_no = k.kind_no
order by f.flow_no
