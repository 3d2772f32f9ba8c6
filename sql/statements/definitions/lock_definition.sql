-- Lock a definition's name until the transaction ends, so that one transaction at a time makes its versions and triggered items.
-- returns: one
-- roles: operator
-- $1 tenant text
-- $2 name text
-- index: none
-- locks: lock_row, one a definition name
select ledger.lock_name('definition', $1::text || chr(31) || $2::text)
