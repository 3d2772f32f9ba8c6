-- Open the record of one pass.
-- returns: one
-- roles: reconciler
-- $1 started_at timestamptz
-- $2 as_of timestamptz
-- $3 actor_no bigint
-- $4 scope text
-- $5 witness_credit_seconds double precision
-- index: none
-- locks: none
insert into ledger.reconciliation (started_at, as_of, actor_no, scope, witness_credit_seconds)
values ($1::timestamptz, $2::timestamptz, $3::bigint, $4::text::jsonb, $5::double precision)
returning reconciliation_no
