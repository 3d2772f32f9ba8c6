-- Record domain events in the inbox; one with the same source, id and time is a duplicate.
-- returns: exactly one per input
-- roles: intake
-- $1 tenants text[]
-- $2 sources text[]
-- $3 ids text[]
-- $4 types text[]
-- $5 occurred_ats timestamptz[]
-- $6 subjects text[]
-- $7 business_keys text[]
-- $8 bodies text[]
-- $9 traceparents text[]
-- $10 matched boolean[]
-- index: event_source_id_occurred_at_key
-- locks: none
with input as materialized (
  select * from unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::boolean[]
  ) with ordinality n (
    tenant, source, id, type, occurred_at, subject, business_key, body, traceparent, matched, ord
  )
),
landed as (
  insert into ledger.event (
    tenant, source, id, type, occurred_at, subject, business_key, body, traceparent, received_at, matched)
  select n.tenant, n.source, n.id, n.type, n.occurred_at, n.subject, n.business_key, n.body::jsonb,
    ledger.usable_traceparent(n.traceparent),
    ledger.now(), n.matched
  from input n
  order by n.ord
  on conflict do nothing
  returning event_no, source, id, occurred_at, received_at
)
select coalesce(l.event_no, known.event_no) as event_no,
  l.event_no is not null
    and row_number() over (partition by n.source, n.id, n.occurred_at order by n.ord) = 1 as new,
  l.received_at
from input n
left join landed l on l.source = n.source and l.id = n.id and l.occurred_at = n.occurred_at
left join lateral (
  select e.event_no from ledger.event e
  where l.event_no is null and e.source = n.source and e.id = n.id and e.occurred_at = n.occurred_at
  limit 1
) known on true
order by n.ord
