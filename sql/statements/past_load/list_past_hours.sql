-- List the results of the items that were due in each quarter hour of a span, of tenants or all, of the kinds of a name or all, which is the empty one.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 kind text
-- $3 from_at timestamptz
-- $4 before timestamptz
-- index: past_load_pkey
-- locks: none
select l.quarter, sum(l.items)::integer as items, sum(l.completed)::integer as completed, sum(l.completed_late)::integer as completed_late,
  sum(l.in_review)::integer as in_review, sum(l.withdrawn)::integer as withdrawn, sum(l.written_off)::integer as written_off,
  sum(l.had_failures)::integer as had_failures
from (
  select distinct n.tenant from unnest($1::text[]) n (tenant) where n.tenant <> ''
  union all
  select '' where $1::text[] is null and $2::text = ''
  union all
  select k.tenant from ledger.kind k where $1::text[] is null and $2::text <> '' and k.name = $2::text
) u
cross join lateral (
  select l.* from ledger.past_load l
  where l.tenant = u.tenant and l.kind = $2::text and l.quarter >= $3::timestamptz and l.quarter < $4::timestamptz
) l
group by l.quarter
order by l.quarter
