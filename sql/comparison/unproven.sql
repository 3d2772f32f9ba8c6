-- The items of which a transition has no run, or is not as its run has it: these are held against runs and repairs one by one.
-- Plain SQL, as `differences`. All columns are bigint; instants are microseconds since 2000-01-01 UTC.
--
-- journal: day, item_no, event, attempt, run (-1: none), actor, ended_at
-- held:    run, item_no, attempt, worker, started, closed (of a run that is open, later than all). One row for each item of a run.
select distinct j.item_no
from journal j
left join held h on h.run = j.run and h.item_no = j.item_no
where h.run is null or j.ended_at < h.started or j.ended_at > h.closed or j.attempt <> h.attempt
  or (j.event = 5 and j.actor <> h.worker)
