-- List the work topics: of each kind, and of claims made since an instant, which may be of a kind's earlier topic.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 claimed_since timestamptz
-- index: none
-- locks: none
select k.topic, k.tenant, k.name as kind from ledger.kind k
union all
select distinct c.topic, null, null
from ledger.claim c
where c.claimed_at >= $1::timestamptz and c.partition >= 0
