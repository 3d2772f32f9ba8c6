-- List changes by tz databases, the newest first, or those of one digest.
-- returns: zero or more
-- $1 digest text
-- $2 limit integer
-- index: none
-- locks: none
select c.change_no, c.digest, c.tzdata, c.tzdata_before, c.from_at, c.opened_at, c.closed_at, a.name as actor,
  p.parts, p.items, p.overtaken
from ledger.zone_change c
join ledger.actor a on a.actor_no = c.actor_no
cross join lateral (
  select count(*)::integer as parts, coalesce(sum(p.items), 0)::bigint as items,
    count(*) filter (where p.overtaken)::integer as overtaken
  from ledger.zone_change_part p where p.change_no = c.change_no
) p
where $1::text is null or c.digest = $1::text
order by c.change_no desc
limit $2::integer
