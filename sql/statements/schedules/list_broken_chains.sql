-- List definitions with a fixed delay without an item that leads to the next one: their chain has not begun, or broke.
-- returns: zero or more
-- roles: materialiser
-- $1 definition_nos bigint[]
-- index: following_definition_idx
-- locks: none
select u.definition_no
from unnest($1::bigint[]) u (definition_no)
where not exists (select from ledger.following f where f.definition_no = u.definition_no)
