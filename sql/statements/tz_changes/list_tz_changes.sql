-- List tz changes, the newest first, or those of one digest.
-- returns: zero or more
-- roles: auditor, operator
-- $1 digest text
-- $2 limit integer
-- index: none
-- locks: none
select c.change_no, c.digest, c.tzdata, c.tzdata_before, c.from_at, c.opened_at, v.closed_at, a.name as actor,
  v.definitions, v.applied, v.superseded
from ledger.tz_change c
join ledger.actor a on a.actor_no = c.actor_no
cross join lateral (
  select count(*)::integer as definitions, coalesce(sum(v.items), 0)::bigint as applied,
    count(*) filter (where v.superseded)::integer as superseded,
    case when count(*) = count(v.applied_at) then coalesce(max(v.applied_at), c.opened_at) end as closed_at
  from (
    select max(v.items) as items, bool_or(v.superseded) as superseded, max(v.applied_at) as applied_at
    from ledger.tz_change_version v where v.change_no = c.change_no
    group by v.definition_no
  ) v
) v
where $1::text is null or c.digest = $1::text
order by c.change_no desc
limit $2::integer
