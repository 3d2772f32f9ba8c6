-- Record one claim: the items in the order they will be published, under a new fence.
-- returns: zero
-- $1 fence bigint
-- $2 allocator_no integer
-- $3 topic text
-- $4 partition integer
-- $5 item_nos bigint[]
-- $6 effective_dates date[]
-- $7 attempts smallint[]
-- $8 starts smallint[]
-- $9 batch_max smallint
-- $10 dispatch_seconds double precision
-- $11 queue_seconds double precision
-- $12 run_seconds double precision
-- $13 flow_no integer
-- $14 topic_actor_no integer
-- $15 lease_seconds double precision
-- index: none
-- locks: none
insert into ledger.claim (
  fence, claimed_at, allocator_no, topic, partition, size, item_no, effective_date, attempt, starts, batch_max,
  deadline, queue_seconds, run_seconds, flow_no, topic_actor_no, lease_seconds)
values (
  $1::bigint, ledger.now(), $2::integer, $3::text, $4::integer, cardinality($5::bigint[]), $5::bigint[],
  $6::date[], $7::smallint[], $8::smallint[], $9::smallint,
  ledger.machine_now() + make_interval(secs => $10::double precision), $11::double precision,
  $12::double precision, $13::integer, $14::integer, $15::double precision)
