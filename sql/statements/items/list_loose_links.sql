-- List those of these items that are open and lead to no next item.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 effective_dates date[]
-- $2 item_nos bigint[]
-- index: due_item_pkey, following_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default)
select i.item_no
from unnest($1::date[], $2::bigint[]) u (effective_date, item_no)
join ledger.due_item i on i.effective_date = u.effective_date and i.item_no = u.item_no
where not exists (select from ledger.following f where f.item_no = i.item_no)
  and ledger.find_ended_at(i.effective_date, i.item_no) is null
