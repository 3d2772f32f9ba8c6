-- Set the work policy of a kind; null keeps a value, but with a `dispatch`, null removes `http`, `outcome_topic`, `compression`, `operation_approval_above` and the deadlines of run and retry.
-- returns: one
-- roles: operator
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
-- $11 dispatch text
-- $12 http jsonb
-- $13 settled_by text
-- $14 dispatch_seconds integer
-- $15 run_seconds double precision
-- $16 total_seconds double precision
-- $17 queue_late text
-- $18 run_late text
-- $19 ordering text
-- $20 failure_holds boolean
-- $21 streak_max smallint
-- $22 outcome_topic text
-- $23 no_replay boolean
-- $24 compression text
-- $25 redacted_fields text[]
-- $26 operation_approval_above integer
-- index: kind_tenant_name_key
-- locks: kind row (for update), and its flows if the ordering changes, which are locked by lock_reordered_flows, in a statement before
with before as (
  select k.kind_no, k.redacted_fields, k.operation_approval_above from ledger.kind k where k.tenant = $1::text and k.name = $2::text for update
)
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
  dispatch = coalesce($11::text, k.dispatch),
  http = case when $11::text is null then coalesce($12::jsonb, k.http) else $12::jsonb end,
  settled_by = coalesce($13::text, k.settled_by),
  dispatch_seconds = coalesce($14::integer, k.dispatch_seconds),
  run_seconds = case when $11::text is null then coalesce($15::double precision, k.run_seconds) else $15::double precision end,
  total_seconds = case when $11::text is null then coalesce($16::double precision, k.total_seconds)
    else $16::double precision end,
  queue_late = coalesce($17::text, k.queue_late),
  run_late = coalesce($18::text, k.run_late),
  ordering = coalesce($19::text, k.ordering),
  failure_holds = coalesce($20::boolean, k.failure_holds),
  no_replay = coalesce($23::boolean, k.no_replay),
  streak_max = coalesce($21::smallint, k.streak_max),
  outcome_topic = case when $11::text is null then coalesce($22::text, k.outcome_topic) else $22::text end,
  policy_version = k.policy_version + 1,
  redacted_fields = coalesce($25::text[], k.redacted_fields),
  operation_approval_above = case when $11::text is null then coalesce($26::integer, k.operation_approval_above)
    else $26::integer end,
  compression = case when $11::text is null then coalesce($24::text, k.compression) else $24::text end
from before
where k.kind_no = before.kind_no
returning k.kind_no, before.redacted_fields as redacted_before,
  before.operation_approval_above as approval_above_before
