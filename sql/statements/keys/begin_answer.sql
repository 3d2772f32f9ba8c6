-- Begin the answer to a request with an Idempotency-Key, or find the answer that it got; waits for one that is being made.
-- returns: one, without a status where it is new
-- roles: service
-- $1 actor_no bigint
-- $2 idempotency_key text
-- $3 request_digest bytea
-- index: api_answer_pkey
-- locks: api_answer row (for update)
insert into ledger.api_answer as a (actor_no, idempotency_key, request_digest)
values ($1::bigint, $2::text, $3::bytea)
on conflict on constraint api_answer_pkey do update set status = a.status
returning a.request_digest, a.status, a.body, a.location
