-- List flows with tenant, kind and the grace after which an item is overdue, by kind, by page; a kind without a flow has none.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 after_kind_no integer
-- $2 after_flow_no integer
-- $3 limit integer
-- index: none
-- locks: none
select k.kind_no, f.flow_no, k.tenant, k.name as kind, k.grace_seconds
from ledger.kind k left join ledger.flow f on f.kind_no = k.kind_no
where k.kind_no >= $1::integer and (k.kind_no, coalesce(f.flow_no, 0)) > ($1::integer, $2::integer)
order by k.kind_no, coalesce(f.flow_no, 0)
limit $3::integer
