-- Record that a person defines schedules although the witness disagrees, and why.
-- returns: exactly one per input
-- roles: operator
-- $1 ids uuid[]
-- $2 tenants text[]
-- $3 kinds text[]
-- $4 subjects text[]
-- $5 sentences text[]
-- $6 expecteds text[]
-- $7 actuals text[]
-- $8 reason text
-- $9 actor_no bigint
-- index: none
-- locks: finding rows (for update, id ascending)
select ledger.accept_disagreements(
  $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text, $9::bigint) as id
