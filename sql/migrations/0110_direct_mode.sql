-- Direct mode: who takes items numbers their runs itself, since one statement claims, starts and tells of both.
-- Nothing is released yet, so no ledger with data waits for these locks.

grant usage on sequence ledger.run_run_no_seq to ledger_worker;

-- A claim's arrays are written once, read when its runs settle, and compressing them is a tenth of what a take costs.
alter table ledger.claim
  alter column item_no set storage external,
  alter column effective_date set storage external,
  alter column attempt set storage external,
  alter column starts set storage external;
