-- Lock flows whose limits are about to be measured; those that another allocator measures now are left out.
-- returns: zero or more
-- $1 flow_nos integer[]
-- index: none
-- locks: flow rows (for update, flow_no ascending, skip locked)
select f.flow_no
from ledger.flow f
where f.flow_no = any ($1::integer[]) and f.paused_at is null
order by f.flow_no
for update skip locked
