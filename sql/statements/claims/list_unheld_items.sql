-- Of the next items that are handed out, by number: list those whose key is not held for them.
-- returns: one or more, each with the number to continue after, null after the last items; without a fault if all keys are held
-- roles: auditor, reconciler
-- $1 after_item_no bigint
-- $2 limit integer
-- $3 item_nos bigint[]
-- index: due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
page as materialized (
  select o.item_no, o.effective_date
  from ledger.open_item o
  where o.item_no > $1::bigint and ($3::bigint[] is null or o.item_no = any ($3::bigint[]))
  order by o.item_no limit $2::integer
)
select r.reached, u.*
from (select case when count(*) = $2::integer then max(p.item_no) end as reached from page p) r
left join (
  select 'not_held' as fault, p.item_no, p.effective_date, i.id, i.business_key, null::timestamptz as held_at, null::timestamptz as ended_at
  from page p
  -- One look-up for each: a join reads all items, however few are handed out.
  cross join lateral (
    select i.id, i.business_key, i.serial from ledger.due_item i where i.effective_date = p.effective_date and i.item_no = p.item_no offset 0
  ) i
  where i.serial is not null and not exists (select from ledger.held_key h where h.serial = i.serial and h.item_no = p.item_no)
) u on true
