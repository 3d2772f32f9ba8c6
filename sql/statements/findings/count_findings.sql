-- Count findings by severity and type, and by how long ago each was found first, up to a limit in all; only open ones on request.
-- returns: zero or more
-- roles: auditor, operator
-- $1 open_only boolean
-- $2 tenant text
-- $3 type text
-- $4 count_max integer
-- $5 tenants text[]
-- index: none
-- locks: none
select x.type, x.severity, count(*)::integer as findings, (sum(count(*)) over ())::integer >= $4::integer as findings_capped,
  count(*) filter (where x.age < interval '1 hour')::integer as under_an_hour,
  count(*) filter (where x.age >= interval '1 hour' and x.age < interval '1 day')::integer as under_a_day,
  count(*) filter (where x.age >= interval '1 day' and x.age < interval '3 days')::integer as under_3_days,
  count(*) filter (where x.age >= interval '3 days' and x.age < interval '7 days')::integer as under_7_days,
  count(*) filter (where x.age >= interval '7 days' and x.age < interval '30 days')::integer as under_30_days,
  count(*) filter (where x.age >= interval '30 days')::integer as older
from (
  select f.type, f.severity, ledger.now() - f.first_seen_at as age from ledger.finding f
  where (not $1::boolean or f.closed_at is null)
    and ($2::text is null or f.tenant = $2::text)
    and ($3::text is null or f.type = $3::text)
    and ($5::text[] is null or f.tenant = any ($5::text[]))
  limit $4::integer
) x
group by x.type, x.severity
order by array_position(array['critical', 'error', 'warning', 'information'], x.severity), x.type
