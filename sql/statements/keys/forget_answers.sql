-- Forget the oldest answers to requests with an Idempotency-Key that were given long ago: a repetition is a new request.
-- returns: one
-- roles: upkeep
-- $1 keep_hours integer
-- $2 limit integer
-- index: api_answer_answered_at_idx, api_answer_pkey
-- locks: api_answer rows (for update, skip locked)
with old as materialized (
  select a.actor_no, a.idempotency_key from ledger.api_answer a
  where a.answered_at < ledger.machine_now() - make_interval(hours => $1::integer)
  order by a.answered_at limit $2::integer
  for update skip locked
),
forgotten as (
  delete from ledger.api_answer a using old o
  where a.actor_no = o.actor_no and a.idempotency_key = o.idempotency_key
  returning a.actor_no
)
select count(*)::integer as forgotten from forgotten
