-- Make the items of schedules that name every minute, as the materialiser makes them: the load of a benchmark.
-- returns: zero
-- roles: owner
-- $1 kind text
-- $2 definition_nos bigint[]
-- $3 from_at timestamptz
-- $4 until_at timestamptz
-- $5 tzdata text
-- $6 actor_no bigint
-- index: none
-- locks: none
insert into ledger.due_item (
  effective_date, flow_no, id, business_key, cycle, due_at, payload, definition_no, tzdata, nominal, zone, decision, emitted_at, actor_no)
select m.day, f.flow_no, ledger.item_id(k.tenant, k.name, 'tick-' || u.place, m.nominal, m.day), 'tick-' || u.place, m.nominal, m.at, '{}',
  u.definition_no, $5::text, m.nominal, 'UTC', 'exact', m.at - interval '1 day', $6::bigint
from (
  select at, (at at time zone 'UTC')::date as day, to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI') as nominal
  from generate_series($3::timestamptz, $4::timestamptz - interval '1 second', interval '1 minute') at
) m
cross join unnest($2::bigint[]) with ordinality u (definition_no, place)
cross join ledger.flow f
join ledger.kind k on k.kind_no = f.kind_no and k.name = $1::text
