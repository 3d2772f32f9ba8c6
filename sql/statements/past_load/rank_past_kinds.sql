-- List kinds, and how many of their items that were due on days in UTC were completed late or not at all; null without items.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 tenant text
-- $3 kind text
-- $4 after timestamptz
-- $5 before timestamptz
-- $6 limit integer
-- index: kind_name_order_idx, past_sum_pkey
-- locks: none
select k.tenant, k.name as kind, s.troubled
from (
  select k.tenant, k.name from ledger.kind k
  where ($1::text[] is null or k.tenant = any ($1::text[])) and ($2::text is null or k.tenant = $2::text)
    and ($3::text is null or k.name = $3::text)
  order by k.tenant collate "C", k.name collate "C"
  limit $6::integer
) k
cross join lateral (
  select sum(s.items - s.completed + s.completed_late - s.withdrawn) as troubled
  from ledger.past_sum s
  where s.tenant = k.tenant and s.kind = k.name and s.minutes = 1440 and s.begins > $4::timestamptz and s.begins < $5::timestamptz
) s
