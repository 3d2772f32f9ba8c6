-- Set how a kind's work is handed out; what is null keeps its value.
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
-- index: kind_tenant_name_key
-- locks: kind row (for update)
insert into ledger.kind as k (
  tenant, name, topic, queue_seconds, lease_seconds, attempt_max, start_max, backoff_base_seconds,
  backoff_cap_seconds, grace_seconds, no_replay)
values (
  $1::text, $2::text, coalesce($3::text, 'due.' || $2::text), coalesce($4::integer, 120), coalesce($5::integer, 60),
  coalesce($6::smallint, 5::smallint), greatest(coalesce($7::smallint, 30::smallint), coalesce($6::smallint, 5::smallint)),
  coalesce($8::double precision, 10), greatest(coalesce($9::double precision, 600), coalesce($8::double precision, 10)),
  coalesce($10::integer, 900), coalesce($11::boolean, false))
on conflict (tenant, name) do update set
  topic = coalesce($3::text, k.topic),
  queue_seconds = coalesce($4::integer, k.queue_seconds),
  lease_seconds = coalesce($5::integer, k.lease_seconds),
  attempt_max = coalesce($6::smallint, k.attempt_max),
  start_max = greatest(coalesce($7::smallint, k.start_max), coalesce($6::smallint, k.attempt_max)),
  backoff_base_seconds = coalesce($8::double precision, k.backoff_base_seconds),
  backoff_cap_seconds = greatest(
    coalesce($9::double precision, k.backoff_cap_seconds), coalesce($8::double precision, k.backoff_base_seconds)),
  grace_seconds = coalesce($10::integer, k.grace_seconds),
  no_replay = coalesce($11::boolean, k.no_replay)
returning k.kind_no
