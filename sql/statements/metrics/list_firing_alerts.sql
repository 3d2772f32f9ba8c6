-- List alerts that have not ended, the oldest first. Their labels name tenants of all.
-- returns: zero or more
-- roles: auditor
-- $1 limit integer
-- index: none
-- locks: none
select a.name, a.labels, extract(epoch from ledger.machine_now() - a.since)::double precision as age_seconds
from ledger.alert a
where a.ended_at is null
order by a.since, a.name, a.labels limit $1::integer
