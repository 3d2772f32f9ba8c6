-- Let so many items of a date have been emitted a microsecond earlier: changes of a benchmark that no finding comes from.
-- returns: zero
-- roles: owner
-- $1 effective_date date
-- $2 count integer
-- index: due_item_pkey
-- locks: none
update ledger.due_item i
set emitted_at = i.emitted_at - interval '1 microsecond'
from (
  select item_no from ledger.due_item where effective_date = $1::date order by item_no limit $2::integer
) u
where i.effective_date = $1::date and i.item_no = u.item_no
