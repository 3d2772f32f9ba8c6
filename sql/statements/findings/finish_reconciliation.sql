-- Close the record of one pass with its counts and the witness's credit that it leaves.
-- returns: zero or more
-- roles: reconciler
-- $1 reconciliation_no bigint
-- $2 counts text
-- $3 witness_credit_seconds double precision
-- index: reconciliation_pkey
-- locks: reconciliation row (for update)
update ledger.reconciliation set finished_at = ledger.machine_now(), counts = $2::text::jsonb,
  witness_credit_seconds = $3::double precision
where reconciliation_no = $1::bigint and finished_at is null
returning reconciliation_no
