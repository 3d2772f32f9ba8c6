-- Record one claim: the items in the order they will be published, under a new fence. One date, attempt or start is that of all items.
-- returns: zero
-- roles: allocator, pull_worker
-- $1 fence bigint
-- $2 claimed_at timestamptz
-- $3 token text
-- $4 allocator_no bigint
-- $5 topic text
-- $6 partition integer
-- $7 item_nos bigint[]
-- $8 effective_dates date[]
-- $9 attempts smallint[]
-- $10 starts smallint[]
-- $11 batch_max smallint
-- $12 dispatch_seconds double precision
-- $13 queue_seconds double precision
-- $14 run_seconds double precision
-- $15 flow_no integer
-- $16 topic_actor_no bigint
-- $17 lease_seconds double precision
-- $18 flow_nos integer[]
-- $19 lag_flow_no integer
-- $20 available_since timestamptz
-- index: none
-- locks: none
insert into ledger.claim (
  fence, claimed_at, token, allocator_no, topic, partition, size, item_no, effective_date, attempt, starts, batch_max,
  deadline, queue_seconds, run_seconds, flow_no, topic_actor_no, lease_seconds, flow_nos, lag_flow_no, available_since)
values (
  $1::bigint, $2::timestamptz, $3::text, $4::bigint, $5::text, $6::integer, cardinality($7::bigint[]), $7::bigint[],
  case cardinality($8::date[]) when 1 then array_fill(($8::date[])[1], array[cardinality($7::bigint[])]) else $8::date[] end,
  case cardinality($9::smallint[]) when 1 then array_fill(($9::smallint[])[1], array[cardinality($7::bigint[])]) else $9::smallint[] end,
  case cardinality($10::smallint[]) when 1 then array_fill(($10::smallint[])[1], array[cardinality($7::bigint[])]) else $10::smallint[] end,
  $11::smallint,
  ledger.machine_now() + make_interval(secs => $12::double precision), $13::double precision,
  $14::double precision, $15::integer, $16::bigint, $17::double precision, $18::integer[],
  $19::integer, $20::timestamptz)
