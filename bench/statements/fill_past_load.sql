-- Fill the past load of so many kinds of a tenant with five weeks up to a moment, in every quarter hour, of three effective dates each.
-- returns: zero
-- roles: owner
-- $1 tenant text
-- $2 kinds integer
-- $3 as_of timestamptz
-- index: none
-- locks: none
with kind as (
  insert into ledger.kind (tenant, name, topic)
  select $1::text, 'Past' || n, 'due.Past' from generate_series(1, $2::integer) n
  returning tenant, name
),
span as (
  select q as quarter, (q at time zone 'UTC')::date - d as effective_date
  from generate_series(date_trunc('hour', $3::timestamptz) - interval '840 hours', $3::timestamptz, interval '15 minutes') q,
    generate_series(0, 2) d
),
counted as (
  insert into ledger.past_load_count (as_of, counted_from)
  values ($3::timestamptz, date_trunc('hour', $3::timestamptz) - interval '840 hours')
)
insert into ledger.past_load (tenant, kind, quarter, effective_date, items, completed, completed_late, in_review, withdrawn, written_off, had_failures)
select coalesce(k.tenant, ''), coalesce(k.name, ''), s.quarter, s.effective_date, sum(9), sum(7), sum(1), sum(1), sum(1), 0, sum(2)
from kind k cross join span s
group by grouping sets ((k.tenant, k.name, s.quarter, s.effective_date), (k.tenant, s.quarter, s.effective_date), (s.quarter, s.effective_date))
