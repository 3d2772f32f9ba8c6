-- List the results of the items of kinds that were due on each day; days are given by where they begin and the last ends, and by spans of past_sum; kinds after a place, up to a limit.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 tenant text
-- $3 kind text
-- $4 days timestamptz[]
-- $5 after_tenant text
-- $6 after_kind text
-- $7 limit integer
-- $8 span_minutes smallint[]
-- $9 span_begins timestamptz[]
-- $10 span_ends timestamptz[]
-- index: kind_name_order_idx, past_sum_pkey
-- locks: none
with chosen as materialized (
  select k.tenant, k.name
  from ledger.kind k
  where ($1::text[] is null or k.tenant = any ($1::text[])) and ($2::text is null or k.tenant = $2::text)
    and ($3::text is null or k.name = $3::text)
    and ($5::text is null or (k.tenant collate "C", k.name collate "C") > ($5::text, $6::text))
    and exists (
      select from ledger.past_sum s
      where s.tenant = k.tenant and s.kind = k.name and s.minutes = 15
        and s.begins >= ($4::timestamptz[])[1] and s.begins < ($4::timestamptz[])[cardinality($4::timestamptz[])])
  order by k.tenant collate "C", k.name collate "C"
  limit $7::integer
),
sums as materialized (
  select u.minutes, array_agg(b.begins) as begins
  from unnest($8::smallint[], $9::timestamptz[], $10::timestamptz[]) u (minutes, begins, ends)
  cross join lateral generate_series(u.begins, u.ends - interval '1 minute', make_interval(mins => u.minutes)) b (begins)
  group by u.minutes
)
select c.tenant, c.name as kind, d.day, d.items, d.completed, d.completed_late, d.in_review, d.withdrawn, d.written_off, d.had_failures
from chosen c
cross join lateral (
  select width_bucket(s.begins, $4::timestamptz[]) as day, sum(s.items)::integer as items, sum(s.completed)::integer as completed,
    sum(s.completed_late)::integer as completed_late, sum(s.in_review)::integer as in_review, sum(s.withdrawn)::integer as withdrawn,
    sum(s.written_off)::integer as written_off, sum(s.had_failures)::integer as had_failures
  from sums u
  cross join lateral (
    select s.* from ledger.past_sum s
    where s.tenant = c.tenant and s.kind = c.name and s.minutes = u.minutes and s.begins = any (u.begins)
    offset 0
  ) s
  group by 1
) d
order by c.tenant collate "C", c.name collate "C", d.day
