-- List items with what names them outside the ledger, and whether they were ever handed out.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 ids uuid[]
-- index: due_item_id_effective_date_key, review_pkey, pending_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default)
select i.id, i.business_key, i.cycle, i.effective_date, i.due_at,
  coalesce(r.item_no is not null or p.attempt > 0 or p.starts > 0, false) as handed_out
from ledger.due_item i
left join ledger.review r on r.item_no = i.item_no
left join ledger.pending p on p.item_no = i.item_no
where i.id = any($1::uuid[])
  and i.effective_date = any(array(select ledger.effective_date_of(u.id) from unnest($1::uuid[]) u (id)))
