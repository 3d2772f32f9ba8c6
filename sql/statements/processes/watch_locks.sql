-- Record since when the locks of processes are missing; list the processes whose lock has been missing for four seconds.
-- returns: zero or more
-- roles: upkeep
-- index: none
-- locks: process rows (for update)
-- Of one that took its lock on another server, or before a restart, a missing lock proves nothing: its leases decide.
with watched as materialized (
  select s.process_no, p.unlocked_at, s.status = 'gone' as is_missing
  from ledger.process p
  join ledger.process_status s on s.process_no = p.process_no
  where p.ended_at is null and p.locked_on = pg_postmaster_start_time()
),
changed as (
  update ledger.process p
  set unlocked_at = case when w.is_missing then ledger.machine_now() end
  from watched w
  where p.process_no = w.process_no and w.is_missing = (w.unlocked_at is null)
    and p.unlocked_at is not distinct from w.unlocked_at and p.locked_on = pg_postmaster_start_time()
  returning p.process_no
)
select w.process_no
from watched w
where w.is_missing and w.unlocked_at <= ledger.machine_now() - interval '4 seconds'
