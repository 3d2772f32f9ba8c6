-- How long after they were due those items were completed: microseconds, to the step of a histogram, by flow.
select c.flow,
  case when c.ended - c.due > 1000 then ceil(log2((c.ended - c.due) / 1000.0) * 16)::bigint else 0 end as step,
  count(*) as items, max(c.ended - c.due) as greatest
from compared c
where c.differences = 0 and c.ending = 5
  and not exists (select 1 from candidate o where o.item_no = c.item_no and o.day = c.day)
group by 1, 2
