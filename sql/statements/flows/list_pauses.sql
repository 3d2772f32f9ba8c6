-- List the pauses in force, by whom and why.
-- returns: zero or more
-- roles: auditor, operator
-- $1 tenant text
-- index: none
-- locks: none
select p.tenant, p.kind, p.lane, p.paused_at, a.name as paused_by, p.reason
from ledger.pause p join ledger.actor a on a.actor_no = p.actor_no
where p.resumed_at is null and ($1::text is null or p.tenant = $1::text)
order by p.paused_at
