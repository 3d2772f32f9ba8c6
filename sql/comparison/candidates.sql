-- The pairs to be judged one by one: those that differ, and the items of the same flow, key and day as one that a source names
-- otherwise or not at all, because what that one should be depends on these.
create or replace temp table candidate as
with related as (
  select distinct flow, day, key
  from compared
  where differences % 64 > 1 or differences % 512 >= 256
)
select c.*
from compared c
left join related r on r.flow = c.flow and r.day = c.day and r.key = c.key
where c.differences > 0 or r.flow is not null
