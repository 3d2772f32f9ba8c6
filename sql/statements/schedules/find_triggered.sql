-- Find the item of an occurrence that a person triggered, however long ago.
-- returns: zero or one
-- roles: operator
-- $1 tenant text
-- $2 name text
-- $3 cycle text
-- index: triggered_pkey
-- locks: none
select t.id
from ledger.triggered t
where t.tenant = $1::text and t.definition = $2::text and t.cycle = $3::text
