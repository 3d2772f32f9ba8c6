-- List the results of the items of kinds that were due on each day, given by where days begin and the last ends; kinds after a place, up to a limit.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 tenant text
-- $3 kind text
-- $4 days timestamptz[]
-- $5 after_tenant text
-- $6 after_kind text
-- $7 limit integer
-- index: kind_name_order_idx, past_load_pkey
-- locks: none
with chosen as materialized (
  select k.tenant, k.name
  from ledger.kind k
  where ($1::text[] is null or k.tenant = any ($1::text[])) and ($2::text is null or k.tenant = $2::text)
    and ($3::text is null or k.name = $3::text)
    and ($5::text is null or (k.tenant collate "C", k.name collate "C") > ($5::text, $6::text))
    and exists (
      select from ledger.past_load l
      where l.tenant = k.tenant and l.kind = k.name and l.quarter >= ($4::timestamptz[])[1]
        and l.quarter < ($4::timestamptz[])[cardinality($4::timestamptz[])])
  order by k.tenant collate "C", k.name collate "C"
  limit $7::integer
)
select c.tenant, c.name as kind, d.day, d.items, d.completed, d.completed_late, d.in_review, d.withdrawn, d.written_off, d.had_failures
from chosen c
cross join lateral (
  select width_bucket(l.quarter, $4::timestamptz[]) as day, sum(l.items)::integer as items, sum(l.completed)::integer as completed,
    sum(l.completed_late)::integer as completed_late, sum(l.in_review)::integer as in_review, sum(l.withdrawn)::integer as withdrawn,
    sum(l.written_off)::integer as written_off, sum(l.had_failures)::integer as had_failures
  from ledger.past_load l
  where l.tenant = c.tenant and l.kind = c.name and l.quarter >= ($4::timestamptz[])[1]
    and l.quarter < ($4::timestamptz[])[cardinality($4::timestamptz[])]
  group by 1
) d
order by c.tenant collate "C", c.name collate "C", d.day
