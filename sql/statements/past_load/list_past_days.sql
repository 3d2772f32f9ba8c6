-- List the results of the items of kinds that were due on each day; days are given by where they begin and the last ends, and by spans of past_sum.
-- returns: zero or more
-- roles: auditor
-- $1 kind_tenants text[]
-- $2 kinds text[]
-- $3 days timestamptz[]
-- $4 span_minutes smallint[]
-- $5 span_begins timestamptz[]
-- $6 span_ends timestamptz[]
-- index: past_sum_pkey
-- locks: none
with sums as materialized (
  select u.minutes, array_agg(b.begins) as begins
  from unnest($4::smallint[], $5::timestamptz[], $6::timestamptz[]) u (minutes, begins, ends)
  cross join lateral generate_series(u.begins, u.ends - interval '1 minute', make_interval(mins => u.minutes)) b (begins)
  group by u.minutes
)
select c.tenant, c.kind, d.day, d.items, d.completed, d.completed_late, d.in_review, d.withdrawn, d.written_off, d.had_failures
from unnest($1::text[], $2::text[]) with ordinality c (tenant, kind, place)
cross join lateral (
  select width_bucket(s.begins, $3::timestamptz[]) as day, sum(s.items)::integer as items, sum(s.completed)::integer as completed,
    sum(s.completed_late)::integer as completed_late, sum(s.in_review)::integer as in_review, sum(s.withdrawn)::integer as withdrawn,
    sum(s.written_off)::integer as written_off, sum(s.had_failures)::integer as had_failures
  from sums u
  cross join lateral (
    select s.* from ledger.past_sum s
    where s.tenant = c.tenant and s.kind = c.kind and s.minutes = u.minutes and s.begins = any (u.begins)
    offset 0
  ) s
  group by 1
) d
order by c.place, d.day
