-- List held keys that their item does not have or may not have yet, of so many keys, and items that are handed out without their key.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 limit integer
-- $2 item_nos bigint[]
-- index: due_item_pkey, held_key_pkey, pending_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
held as materialized (
  select h.item_no, h.effective_date, h.flow_no, h.serial, h.held_at, ledger.find_ended_at(h.effective_date, h.item_no) as ended_at
  from ledger.held_key h
  where $2::bigint[] is null or h.item_no = any ($2::bigint[])
  order by h.serial limit $1::integer
)
select case
    when i.item_no is null then 'no_item' when h.ended_at is not null then 'ended'
    when h.serial is distinct from i.serial or h.flow_no <> i.flow_no then 'other' else 'early' end as fault,
  h.item_no, h.effective_date, i.id, i.business_key, h.held_at, h.ended_at
from held h
left join ledger.due_item i on i.item_no = h.item_no and i.effective_date = h.effective_date
where i.item_no is null or h.ended_at is not null or h.serial is distinct from i.serial or h.flow_no <> i.flow_no
  or i.due_at > ledger.now() and exists (select from ledger.pending p where p.item_no = h.item_no and p.starts = 0)
    and not exists (select from ledger.expedited x where x.item_no = h.item_no)
union all
(select 'not_held', o.item_no, o.effective_date, i.id, i.business_key, null, null
from ledger.open_item o
join ledger.due_item i on i.item_no = o.item_no and i.effective_date = o.effective_date
where i.serial is not null and ($2::bigint[] is null or o.item_no = any ($2::bigint[]))
  and not exists (select from ledger.held_key h where h.serial = i.serial and h.item_no = i.item_no)
limit $1::integer)
