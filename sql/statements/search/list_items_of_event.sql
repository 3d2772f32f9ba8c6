-- List the items that an event implied, of its business keys, up to a limit.
-- returns: zero or more
-- roles: auditor
-- $1 event_no bigint
-- $2 occurred_at timestamptz
-- $3 tenants text[]
-- $4 limit integer
-- index: event_pkey, event_other_key_pkey, due_item_key_idx
-- locks: none
with locked_default as (select from ledger.due_item_default),
event as materialized (
  select e.event_no, e.tenant, e.business_key from ledger.event e
  where e.event_no = $1::bigint and e.occurred_at = $2::timestamptz
    and ($3::text[] is null or e.tenant = any ($3::text[]))
),
flows as materialized (
  select f.flow_no, f.lane, k.tenant, k.name as kind from event e
  join ledger.kind k on k.tenant = e.tenant join ledger.flow f on f.kind_no = k.kind_no
),
keys as materialized (
  select e.business_key from event e where e.business_key is not null
  union
  select o.business_key from event e
  join ledger.event_other_key o on o.tenant = e.tenant and o.event_no = e.event_no
)
select i.id, f.tenant, f.kind, f.lane, i.business_key, i.effective_date, i.due_at
from keys y
cross join lateral (
  select i.id, i.flow_no, i.business_key, i.effective_date, i.due_at from ledger.due_item i
  where i.business_key = y.business_key and i.flow_no = any (array(select f.flow_no from flows f)) and i.event_no = $1::bigint
  offset 0
) i
join flows f on f.flow_no = i.flow_no
order by i.effective_date desc, i.id limit $4::integer
