-- Lock the watermarks of a definition's versions until the transaction ends, after any transaction that expands one of them.
-- returns: zero or more
-- roles: operator
-- $1 tenant text
-- $2 name text
-- index: materialised_pkey
-- locks: materialised rows (for update, definition_no ascending)
select m.definition_no
from ledger.definition d
join ledger.materialised m on m.definition_no = d.definition_no
where d.tenant = $1::text and d.name = $2::text
order by m.definition_no
for update of m
