-- Record domain events in the inbox; one with the tenant, source and id of an earlier one is a duplicate.
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
-- $11 actor_no bigint
-- index: event_key_pkey, event_pkey
-- locks: none
with input as materialized (
  select n.*, row_number() over copies as copy, first_value(n.ord) over copies as first
  from unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::boolean[]
  ) with ordinality n (
    tenant, source, id, type, occurred_at, subject, business_key, body, traceparent, matched, ord
  )
  window copies as (partition by n.tenant, n.source, n.id order by n.ord)
),
landed as (
  insert into ledger.event_key (tenant, source, id, occurred_at, received_at)
  select n.tenant, n.source, n.id, n.occurred_at, ledger.now()
  from input n
  where n.copy = 1
  order by n.tenant, n.source, n.id  -- as everybody does: two who record the same events never wait for each other
  on conflict do nothing
  returning event_no, tenant, source, id, received_at
),
recorded as (
  insert into ledger.event (
    event_no, tenant, source, id, type, occurred_at, subject, business_key, body, traceparent, received_at, matched, actor_no)
  select l.event_no, n.tenant, n.source, n.id, n.type, n.occurred_at, n.subject, n.business_key, n.body::jsonb,
    ledger.usable_traceparent(n.traceparent), l.received_at, n.matched, $11::bigint
  from landed l
  join input n on n.tenant = l.tenant and n.source = l.source and n.id = l.id and n.copy = 1
)
select coalesce(l.event_no, known.event_no) as event_no,
  l.event_no is not null and n.copy = 1 as new,
  case when n.copy = 1 then l.received_at end as received_at,
  case
    when f.ord is not null then
      (n.type, n.occurred_at, n.subject, n.body::jsonb) is distinct from (f.type, f.occurred_at, f.subject, f.body::jsonb)
    when earlier.type is not null then
      (n.type, n.occurred_at, n.subject, n.body::jsonb)
        is distinct from (earlier.type, earlier.occurred_at, earlier.subject, earlier.body)
    else false
  end as altered
from input n
left join landed l on l.tenant = n.tenant and l.source = n.source and l.id = n.id
left join lateral (
  select k.event_no, k.occurred_at from ledger.event_key k
  where l.event_no is null and k.tenant = n.tenant and k.source = n.source and k.id = n.id
  limit 1
) known on true
left join input f on f.ord = n.first and n.copy > 1 and l.event_no is not null
left join lateral (
  select e.type, e.occurred_at, e.subject, e.body from ledger.event e
  where e.event_no = known.event_no and e.occurred_at = known.occurred_at
  limit 1
) earlier on true
order by n.ord
