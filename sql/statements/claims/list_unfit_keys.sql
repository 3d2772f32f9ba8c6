-- List held keys that their item does not have or may not have yet, of some keys at a time.
-- returns: one or more, each with the key to continue after, null after the last keys; without a fault if none is unfit
-- roles: auditor, reconciler
-- $1 after_serial bigint
-- $2 limit integer
-- $3 item_nos bigint[]
-- index: due_item_pkey, held_key_pkey, pending_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
held as materialized (
  select h.item_no, h.effective_date, h.flow_no, h.serial, h.held_at, ledger.find_ended_at(h.effective_date, h.item_no) as ended_at
  from ledger.held_key h
  where h.serial > $1::bigint and ($3::bigint[] is null or h.item_no = any ($3::bigint[]))
  order by h.serial limit $2::integer
)
select p.reached, u.*
from (select case when count(*) = $2::integer then max(h.serial) end as reached from held h) p
left join (
  select case
      when i.item_no is null then 'no_item' when h.ended_at is not null then 'ended'
      when h.serial is distinct from i.serial or h.flow_no <> i.flow_no then 'other' else 'early' end as fault,
    h.item_no, h.effective_date, i.id, i.business_key, h.held_at, h.ended_at
  from held h
  left join ledger.due_item i on i.item_no = h.item_no and i.effective_date = h.effective_date
  where i.item_no is null or h.ended_at is not null or h.serial is distinct from i.serial or h.flow_no <> i.flow_no
    or i.due_at > ledger.now() and exists (select from ledger.pending p where p.item_no = h.item_no and p.starts = 0)
      and not exists (select from ledger.expedited x where x.item_no = h.item_no)
) u on true
