-- Of the next runs by number that are open, or were closed up to an instant: give the numbers and how many of its items each ended, in the binary form of arrays, and when they were started.
-- returns: one, with the number to continue after, null after the last runs
-- roles: auditor, reconciler
-- $1 after_run_no bigint
-- $2 closed_until timestamptz
-- $3 limit integer
-- index: run_pkey
-- locks: none
with page as materialized (
  select r.run_no, r.started_at, case when r.closed_at is null then bit_count(r.ended)::integer else r.to_position - r.from_position + 1 end as items
  from ledger.run r
  where r.run_no > $1::bigint and (r.closed_at is null or r.closed_at <= $2::timestamptz)
  order by r.run_no limit $3::integer
)
select case when count(*) = $3::integer then max(p.run_no) end as reached,
  array_send(array_agg(p.run_no order by p.run_no)) as run_nos, array_send(array_agg(p.items order by p.run_no)) as items,
  min(p.started_at) as first_started_at, max(p.started_at) as last_started_at
from page p
