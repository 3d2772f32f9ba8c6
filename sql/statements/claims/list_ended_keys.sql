-- List held keys whose items have ended, of so many keys, each with its item.
-- returns: zero or more
-- roles: reconciler
-- $1 limit integer
-- index: due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
held as materialized (
  select h.item_no, h.effective_date, h.held_at, ledger.find_ended_at(h.effective_date, h.item_no) as ended_at
  from ledger.held_key h order by h.serial limit $1::integer
)
select i.id, i.business_key, h.held_at, h.ended_at
from held h
join ledger.due_item i on i.item_no = h.item_no and i.effective_date = h.effective_date
where h.ended_at is not null
order by h.held_at
