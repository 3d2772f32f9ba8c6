-- Measure how long after their time items were started, by when that was, from a sample of the runs.
-- returns: zero or more
-- roles: owner
-- $1 started_from timestamptz
-- $2 started_until timestamptz
-- $3 every_nth_run integer
-- $4 key_prefix text
-- $5 bucket_seconds double precision
-- index: none
-- locks: none
with sampled as materialized (
  select r.started_at, c.item_no[r.from_position:r.to_position] as item_nos,
    c.effective_date[r.from_position:r.to_position] as effective_dates
  from ledger.run r
  join ledger.claim c on c.fence = r.fence
  where r.started_at >= $1::timestamptz and r.started_at < $2::timestamptz and r.run_no % $3::integer = 0
),
lag as (
  select floor(extract(epoch from s.started_at - $1::timestamptz) / $5::double precision)::integer as bucket,
    extract(epoch from s.started_at - i.due_at)::double precision as seconds
  from sampled s
  cross join lateral unnest(s.item_nos, s.effective_dates) u (item_no, effective_date)
  join ledger.due_item i on i.effective_date = u.effective_date and i.item_no = u.item_no
  where starts_with(i.business_key, $4::text)
)
select bucket, count(*)::integer as items,
  percentile_disc(array[0.5, 0.99, 1.0]) within group (order by seconds) as seconds,
  (count(*) filter (where seconds < 0))::integer as early
from lag
group by bucket
order by bucket
