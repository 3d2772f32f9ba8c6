-- Delete the rows of processes that ended an hour ago, or have not been renewed for a week.
-- returns: zero or more
-- roles: upkeep
-- $1 limit integer
-- index: process_pkey
-- locks: process rows (for update, skip locked)
with old as materialized (
  select p.process_no
  from ledger.process p
  where p.seen_at < ledger.machine_now() - case when p.ended_at is null then interval '7 days' else interval '1 hour' end
  order by p.process_no
  limit $1::integer
  for update skip locked
)
delete from ledger.process p using old o where p.process_no = o.process_no
returning p.process_no
