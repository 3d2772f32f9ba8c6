-- Take the month whose items were counted longest ago, if one is due for a count, and record that it is counted now.
-- returns: zero or one
-- roles: upkeep
-- $1 rest_seconds double precision
-- $2 first_seconds double precision
-- index: none
-- locks: partition_span row (for update, skip locked)
update ledger.partition_span p
set checked_at = clock_timestamp()
from (
  select s.parent, s.starts_on
  from ledger.partition_span s
  where s.parent = 'due_item'
    and coalesce(s.checked_at + make_interval(secs => $1::double precision),
      s.made_at + make_interval(secs => $2::double precision)) <= clock_timestamp()
  order by s.checked_at nulls first, s.starts_on
  limit 1
  for update skip locked
) m
where p.parent = m.parent and p.starts_on = m.starts_on
returning p.starts_on, p.ends_before
