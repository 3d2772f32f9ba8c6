-- The items of which a transition has no run, is not as its run has it, or none can have it so, and those that a run held and no
-- transition says how they ended there, or two do: these are held against runs and repairs one by one. `run` is -1, or of an item
-- without a transition in its run or with two, that run.
-- Plain SQL, as `differences`. All columns are bigint; instants are microseconds since 2000-01-01 UTC.
--
-- item:    item_no
-- journal: day, item_no, event, attempt, run (-1: none), actor, ended_at, is_repeated (0: no other row is of the item)
-- held:    run, item_no, attempt, worker, started, closed (of a run that is open, later than all), is_ended (1: in the run, as all of
--          one that is closed). One row for each item of a run.
select distinct coalesce(j.item_no, h.item_no) as item_no, case when j.item_no is null then h.run else -1 end as run
from journal j
full outer join held h on h.run = j.run and h.item_no = j.item_no
where case
  when j.item_no is null then h.is_ended = 1 and h.item_no in (select i.item_no from item i)
  else h.run is null or j.ended_at < h.started or j.ended_at > h.closed or j.attempt <> h.attempt
    or (j.event = 5 and j.actor <> h.worker) or j.event not in (3, 5, 6, 7, 8, 9, 11, 12, 13, 14)
  end
union
select j.item_no, j.run
from journal j
where j.run <> -1 and j.is_repeated <> 0
group by j.item_no, j.run
having count(*) > 1
