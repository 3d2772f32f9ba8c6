-- List how many items were completed in each minute of the last hour that is counted, and within how many seconds after they were due 99 of 100 of them; a minute of null: the hour. A minute without any is not listed.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- index: overview_minute_pkey
-- locks: none
select c.minute, max(c.completed) as completed, sum(c.sampled)::integer as sampled,
  2::double precision ^ (min(c.bucket) filter (where c.up_to >= 0.99 * c.completed - 1e-6) / 8.0::double precision) / 1000 as p99_seconds
from (
  select o.minute, o.bucket, o.sampled, sum(o.items) over (partition by o.minute) as completed,
    sum(o.items) over (partition by o.minute order by o.bucket) as up_to
  from (
    select o.minute, o.bucket, sum(o.items) as items, sum(o.sampled) as sampled
    from ledger.overview_reader r
    cross join lateral (select date_bin('1 minute', r.minutes_to, '2000-01-01T00:00:00Z') as ends offset 0) e
    cross join lateral unnest(coalesce(array_remove($1::text[], ''), array[''])) u (tenant)
    cross join lateral generate_series(1, 60) n (back)
    cross join lateral (
      select o.minute, o.bucket, o.items, o.sampled from ledger.overview_minute o
      where o.tenant = u.tenant and o.minute = e.ends - n.back * interval '1 minute' offset 0
    ) o
    group by grouping sets ((o.minute, o.bucket), (o.bucket))
  ) o
) c
group by c.minute
order by c.minute
