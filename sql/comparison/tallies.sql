-- Counts of the items that are not judged one by one, by flow. All of these are completed in time, or open and not due.
select c.flow, count(*) as items, sum(c.is_owed) as owed, sum(c.has_terms) as termed,
  sum(case when c.ending = 0 then 1 else 0 end) as open,
  sum(c.low::hugeint + case when c.low < 0 then 18446744073709551616 else 0 end)::varchar as hash_total,
  min(case when c.ending = 0 then c.due end) as next_due
from compared c
where c.differences = 0
  and not exists (select 1 from candidate o where o.item_no = c.item_no and o.day = c.day)
group by c.flow
