-- List items that are handed out and whose key is not held for them, by ascending number, by page.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 item_nos bigint[]
-- $2 after_item_no bigint
-- $3 limit integer
-- index: due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default)
select 'not_held' as fault, o.item_no, o.effective_date, i.id, i.business_key, null::timestamptz as held_at, null::timestamptz as ended_at
from ledger.open_item o
-- One look-up for each: a join reads all items, however few are handed out.
cross join lateral (
  select i.id, i.business_key, i.serial from ledger.due_item i where i.effective_date = o.effective_date and i.item_no = o.item_no offset 0
) i
where i.serial is not null and ($1::bigint[] is null or o.item_no = any ($1::bigint[]))
  and o.item_no > $2::bigint
  and not exists (select from ledger.held_key h where h.serial = i.serial and h.item_no = o.item_no)
order by o.item_no
limit $3::integer
