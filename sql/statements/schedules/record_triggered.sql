-- Record the item of an occurrence that a person triggered; the caller has locked the definition.
-- returns: zero
-- roles: operator
-- $1 tenant text
-- $2 name text
-- $3 cycle text
-- $4 id uuid
-- index: none
-- locks: none
insert into ledger.triggered (tenant, definition, cycle, id)
values ($1::text, $2::text, $3::text, $4::uuid)
