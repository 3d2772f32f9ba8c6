-- Emit items made on the server, as Scheduled, each through the same door as any other: the load of a benchmark.
-- returns: one
-- roles: owner
-- $1 flow_tenants text[]
-- $2 flow_kinds text[]
-- $3 flow_lanes text[]
-- $4 key_prefix text
-- $5 first bigint
-- $6 count integer
-- $7 due_at timestamptz
-- $8 spacing_seconds double precision
-- $9 payload text
-- $10 actor bigint
-- index: none
-- locks: none
select ($6::integer - count(e.ord))::integer as created
from (
  select
    array_agg((1 + n % cardinality($1::text[]))::integer order by n) as flow_of,
    array_agg($4::text || lpad(n::text, 9, '0') order by n) as business_keys,
    array_agg('2027'::text) as cycles,
    array_agg(date '2027-03-01' + (n % 28)::integer order by n) as effective_dates,
    array_agg($7::timestamptz + make_interval(secs => n * $8::double precision) order by n) as due_ats,
    array_agg($9::text) as payloads
  from generate_series($5::bigint, $5::bigint + $6::integer - 1) n
) made
left join lateral ledger.emit_items(
  $1::text[], $2::text[], $3::text[], made.flow_of, made.business_keys, made.cycles, made.effective_dates,
  made.due_ats, made.payloads, $10::bigint) e on true
