-- Lock a calendar's name until the transaction ends, so that one transaction at a time makes its next version.
-- returns: one
-- roles: operator
-- $1 tenant text
-- $2 name text
-- index: none
-- locks: lock_row, one a calendar name
select ledger.lock_name('calendar', $1::text || chr(31) || $2::text)
