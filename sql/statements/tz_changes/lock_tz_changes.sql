-- Lock the tz changes until the transaction ends: one at a time is recorded.
-- returns: one
-- roles: operator
-- index: none
-- locks: lock_row, one
select ledger.lock_name('tz_change', '')
