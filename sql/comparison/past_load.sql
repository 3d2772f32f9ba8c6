-- Results of the items that are due from one instant to another, by kind, day and quarter hour (counted from 2000-01-01 UTC).
-- `span`: from_at, before; `parked`: item_no of each item that is in review. The others are the tables of `differences`.
with failed as (
  select distinct j.day, j.item_no from journal j where j.event in (6 /* failed */, 7 /* timed_out */, 9 /* parked */)
)
select f.kind, c.day, c.due // 900000000 as quarter, count(*) as items,
  count(*) filter (where c.ending = 5 /* completed */) as completed,
  count(*) filter (where c.ending = 5 /* completed */ and c.differences % 2048 >= 1024) as completed_late,
  count(*) filter (where c.ending = 0 and p.item_no is not null) as in_review,
  count(*) filter (where c.ending in (11 /* cancelled */, 12 /* superseded */, 13 /* skipped */)) as withdrawn,
  count(*) filter (where c.ending = 14 /* written_off */) as written_off,
  count(*) filter (where x.item_no is not null) as had_failures
from compared c
cross join span s
join flow f on f.flow = c.flow
left join parked p on p.item_no = c.item_no
left join failed x on x.day = c.day and x.item_no = c.item_no
where c.item_no >= 0 and c.due >= s.from_at and c.due < s.before
group by 1, 2, 3
