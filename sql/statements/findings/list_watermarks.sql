-- List how far kinds are complete, the least complete first.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 tenant text
-- $3 limit integer
-- index: none
-- locks: none
select tenant, kind, complete_before, blocked_by, as_of
from ledger.watermark
where ($1::text[] is null or tenant = any ($1::text[])) and ($2::text is null or tenant = $2::text)
order by complete_before nulls first, tenant, kind
limit $3::integer
