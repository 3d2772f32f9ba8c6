-- List items by number with everything that their sources say of them.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 effective_dates date[]
-- $2 item_nos bigint[]
-- index: due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default)
select i.item_no, f.lane, i.due_at, i.start_by, i.complete_by, i.smear_seconds, nullif(i.overlap, 1 /* waits, as items of an ordered kind do */) as overlap, i.partition_key, i.labels::text as labels,
  i.nominal, i.zone, i.decision, i.payload::text as payload, i.definition_no, i.event_no, i.tzdata
from unnest($1::date[], $2::bigint[]) u (effective_date, item_no)
join ledger.due_item i on i.effective_date = u.effective_date and i.item_no = u.item_no
join ledger.flow f on f.flow_no = i.flow_no
