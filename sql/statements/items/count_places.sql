-- Count the states that each of these items has (waiting, parked, handed out, ended), and whether its end is requested.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 effective_dates date[]
-- $2 item_nos bigint[]
-- index: due_item_pkey, pending_pkey, review_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
handed_out as materialized (
  select o.item_no, count(*) as places from ledger.open_item o where o.item_no = any ($2::bigint[]) group by o.item_no
)
select i.item_no,
  (exists (select from ledger.pending p where p.item_no = i.item_no))::integer as waiting,
  (exists (select from ledger.review r where r.item_no = i.item_no))::integer as parked,
  coalesce((select h.places from handed_out h where h.item_no = i.item_no), 0)::integer as handed_out,
  exists (select from ledger.withdrawal w where w.item_no = i.item_no) as is_requested,
  (ledger.find_ended_at(i.effective_date, i.item_no) is not null)::integer as ended
from unnest($1::date[], $2::bigint[]) u (effective_date, item_no)
join ledger.due_item i on i.effective_date = u.effective_date and i.item_no = u.item_no
