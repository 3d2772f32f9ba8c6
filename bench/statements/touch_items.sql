-- Change the trace context of so many items of a date, which no comparison reads: changes of a benchmark.
-- returns: zero
-- roles: owner
-- $1 effective_date date
-- $2 count integer
-- index: due_item_pkey
-- locks: none
update ledger.due_item i
set traceparent = '00-' || md5(i.item_no::text) || '-' || left(md5(i.business_key), 16) || '-01'
from (
  select item_no from ledger.due_item where effective_date = $1::date order by item_no limit $2::integer
) u
where i.effective_date = $1::date and i.item_no = u.item_no
