-- List the business keys with at least so many failures in a row and no completion since.
-- returns: zero or more
-- roles: auditor, operator
-- $1 tenant text
-- $2 kind text
-- $3 failures_min integer
-- $4 limit integer
-- index: none
-- locks: none
select k.tenant, k.name as kind, f.lane, s.business_key, s.failures, s.first_at, s.last_at, s.flagged_at, s.reason
from ledger.failure_streak s
join ledger.flow f on f.flow_no = s.flow_no
join ledger.kind k on k.kind_no = f.kind_no
where ($1::text is null or k.tenant = $1::text) and ($2::text is null or k.name = $2::text)
  and s.failures >= coalesce($3::integer, k.streak_max)
  and not ledger.completed_since(s.flow_no, s.business_key, s.last_at)
order by s.failures desc, k.tenant, k.name, s.business_key
limit $4::integer
