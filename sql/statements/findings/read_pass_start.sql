-- Read the moment of a pass that begins now, on business time, with the latest moment and the credit of those before.
-- returns: one
-- roles: auditor, reconciler
-- index: reconciliation_as_of_idx, reconciliation_pkey
-- locks: none
select ledger.machine_now() as started_at, ledger.now() as as_of, coalesce((
  -- And a tenth of a second a day, so that a few short passes ask as well.
  select r.witness_credit_seconds + 0.1 * greatest(extract(epoch from ledger.machine_now() - r.started_at)::float8 / 86400, 0)
  from ledger.reconciliation r order by r.reconciliation_no desc limit 1), 0) as witness_credit_seconds,
  (select max(r.as_of) from ledger.reconciliation r) as latest_as_of
