-- List items of the events that were received after a pass had found their kind complete beyond the due time; of so many events.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 event_max integer
-- $2 row_max integer
-- index: event_key_received_at_idx, event_pkey, due_item_key_idx
-- locks: none
with locked_default as (select from ledger.due_item_default),
recent as materialized (
  select k.event_no, k.occurred_at
  from ledger.event_key k
  where k.received_at > (select min(w.as_of) from ledger.watermark w where w.complete_before is not null)
  order by k.received_at desc
  limit $1::integer
),
concerned as materialized (
  select e.event_no, e.tenant, e.source, e.id, e.received_at, k.business_key
  from recent r
  join ledger.event e on e.event_no = r.event_no and e.occurred_at = r.occurred_at
  cross join lateral (
    select e.business_key
    union
    select o.business_key from ledger.event_other_key o where o.tenant = e.tenant and o.event_no = e.event_no
  ) k
)
select c.event_no, c.source, c.id as event_id, c.received_at, w.as_of, w.tenant, w.kind, i.id, i.business_key,
  i.effective_date, i.due_at
from concerned c
join ledger.watermark w on w.tenant = c.tenant and w.as_of < c.received_at
join ledger.flow f on f.tenant = w.tenant and f.kind = w.kind
join ledger.due_item i on i.business_key = c.business_key and i.flow_no = f.flow_no
where i.event_no = c.event_no and i.due_at < w.complete_before
order by i.effective_date, i.item_no
limit $2::integer
