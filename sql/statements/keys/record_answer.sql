-- Record the answer that was begun in this transaction.
-- returns: zero or one, none where it has an answer
-- roles: service
-- $1 actor_no bigint
-- $2 idempotency_key text
-- $3 status smallint
-- $4 body text
-- $5 location text
-- index: api_answer_pkey
-- locks: api_answer row (for update)
update ledger.api_answer a set status = $3::smallint, body = $4::text, location = $5::text
where a.actor_no = $1::bigint and a.idempotency_key = $2::text and a.status is null
returning a.status
