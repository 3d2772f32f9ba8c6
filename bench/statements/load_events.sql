-- Record events of an inbox, and the items that an event rule owes for them, as the intake makes these: the load of a benchmark.
-- returns: zero
-- roles: owner
-- $1 kind text
-- $2 definition_no bigint
-- $3 first bigint
-- $4 count bigint
-- $5 received_at timestamptz
-- $6 first_date date
-- $7 days integer
-- $8 tzdata text
-- $9 actor_no bigint
-- index: none
-- locks: none
with made as materialized (
  select n as event_no, k.tenant, k.name as kind, f.flow_no, 'P-' || lpad(n::text, 9, '0') as policy, $6::date + (n % $7::integer)::integer as expires_on,
    $5::timestamptz + n / 1000 * interval '1 us' as received_at  -- a thousand at a time
  from generate_series($3::bigint, $3::bigint + $4::bigint - 1) n
  cross join ledger.flow f
  join ledger.kind k on k.kind_no = f.kind_no and k.name = $1::text
),
keyed as (
  insert into ledger.event_key (tenant, source, id, event_no, occurred_at, received_at) overriding system value
  select m.tenant, 'policies', m.policy, m.event_no, $5::timestamptz, m.received_at from made m
),
received as (
  insert into ledger.event (event_no, tenant, source, id, type, occurred_at, subject, business_key, body, received_at, matched)
  select m.event_no, m.tenant, 'policies', m.policy, 'PolicyActivated', $5::timestamptz, m.policy, m.policy,
    jsonb_build_object('policy_number', m.policy, 'term', '2027', 'expires_on', m.expires_on::text, 'premium', '123.45'), m.received_at, true
  from made m
)
insert into ledger.due_item (
  effective_date, flow_no, id, business_key, cycle, due_at, payload, definition_no, event_no, tzdata, nominal, zone, decision, emitted_at,
  actor_no)
select m.expires_on, m.flow_no, ledger.item_id(m.tenant, m.kind, m.policy, '2027', m.expires_on), m.policy, '2027',
  (m.expires_on - 30 + time '09:00') at time zone 'America/New_York',
  ('{"expires_on":"' || m.expires_on || '","policy_number":"' || m.policy || '","premium":"123.45","term":"2027"}')::json,
  $2::bigint, m.event_no, $8::text, (m.expires_on - 30) || 'T09:00', 'America/New_York', 'exact', $5::timestamptz + interval '1 second', $9::bigint
from made m
