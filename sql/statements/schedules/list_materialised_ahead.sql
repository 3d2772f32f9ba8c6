-- List the versions that are materialised beyond now, by number.
-- returns: zero or more
-- roles: operator
-- $1 after_definition_no bigint
-- $2 limit integer
-- index: none
-- locks: none
select m.definition_no
from ledger.materialised m
where m.definition_no > $1::bigint and m.materialised_until > ledger.now()
order by m.definition_no
limit $2::integer
