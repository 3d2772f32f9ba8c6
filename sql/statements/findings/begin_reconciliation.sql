-- Open the record of one pass and fix its moment on business time, with the latest moment and the credit of those before.
-- returns: one
-- roles: reconciler
-- $1 actor_no bigint
-- $2 scope text
-- index: reconciliation_as_of_idx, reconciliation_pkey
-- locks: none
insert into ledger.reconciliation (started_at, as_of, actor_no, scope, witness_credit_seconds)
values (ledger.machine_now(), ledger.now(), $1::bigint, $2::text::jsonb, coalesce((
  -- And a tenth of a second a day, so that a few short passes ask as well.
  select r.witness_credit_seconds + 0.1 * greatest(extract(epoch from ledger.machine_now() - r.started_at)::float8 / 86400, 0)
  from ledger.reconciliation r order by r.reconciliation_no desc limit 1), 0))
returning reconciliation_no, started_at, as_of, witness_credit_seconds,
  (select max(r.as_of) from ledger.reconciliation r) as latest_as_of
