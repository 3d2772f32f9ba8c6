-- List how far kinds are complete, the least complete first; after one of them on request.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 tenant text
-- $3 limit integer
-- $4 kind text
-- $5 after_complete_before timestamptz
-- $6 after_tenant text
-- $7 after_kind text
-- index: none
-- locks: none
select tenant, kind, complete_before, blocked_by, as_of
from ledger.watermark
where ($1::text[] is null or tenant = any ($1::text[])) and ($2::text is null or tenant = $2::text)
  and ($4::text is null or kind = $4::text)
  and ($6::text is null or (coalesce(complete_before, '-infinity'), tenant, kind) > (coalesce($5::timestamptz, '-infinity'), $6::text, $7::text))
order by complete_before nulls first, tenant, kind
limit $3::integer
