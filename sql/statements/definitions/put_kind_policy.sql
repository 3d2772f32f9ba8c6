-- Set the work policy of a kind; null keeps a value, but with a `dispatch`, null removes `http` and the deadlines of run and retry.
-- returns: one
-- $1 tenant text
-- $2 name text
-- $3 topic text
-- $4 queue_seconds integer
-- $5 lease_seconds integer
-- $6 attempt_max smallint
-- $7 start_max smallint
-- $8 backoff_base_seconds double precision
-- $9 backoff_cap_seconds double precision
-- $10 grace_seconds integer
-- $11 no_replay boolean
-- $12 dispatch text
-- $13 http jsonb
-- $14 settled_by text
-- $15 dispatch_seconds integer
-- $16 run_seconds double precision
-- $17 total_seconds double precision
-- $18 queue_late text
-- $19 run_late text
-- $20 ordering text
-- $21 failure_holds boolean
-- $22 streak_max smallint
-- index: kind_tenant_name_key
-- locks: kind row (for update)
update ledger.kind k set
  topic = coalesce($3::text, k.topic),
  queue_seconds = coalesce($4::integer, k.queue_seconds),
  lease_seconds = coalesce($5::integer, k.lease_seconds),
  attempt_max = coalesce($6::smallint, k.attempt_max),
  start_max = greatest(coalesce($7::smallint, k.start_max), coalesce($6::smallint, k.attempt_max)),
  backoff_base_seconds = coalesce($8::double precision, k.backoff_base_seconds),
  backoff_cap_seconds = greatest(
    coalesce($9::double precision, k.backoff_cap_seconds), coalesce($8::double precision, k.backoff_base_seconds)),
  grace_seconds = coalesce($10::integer, k.grace_seconds),
  no_replay = coalesce($11::boolean, k.no_replay),
  dispatch = coalesce($12::text, k.dispatch),
  http = case when $12::text is null then coalesce($13::jsonb, k.http) else $13::jsonb end,
  settled_by = coalesce($14::text, k.settled_by),
  dispatch_seconds = coalesce($15::integer, k.dispatch_seconds),
  run_seconds = case when $12::text is null then coalesce($16::double precision, k.run_seconds) else $16::double precision end,
  total_seconds = case when $12::text is null then coalesce($17::double precision, k.total_seconds)
    else $17::double precision end,
  queue_late = coalesce($18::text, k.queue_late),
  run_late = coalesce($19::text, k.run_late),
  ordering = coalesce($20::text, k.ordering),
  failure_holds = coalesce($21::boolean, k.failure_holds),
  streak_max = coalesce($22::smallint, k.streak_max)
where k.tenant = $1::text and k.name = $2::text
returning k.kind_no
