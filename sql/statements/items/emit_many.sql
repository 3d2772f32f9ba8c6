-- Emit the items of a JSON array in the caller's transaction; an existing key changes nothing.
-- returns: zero or more, one an item in the order of the array
-- roles: emitter
-- $1 items text
-- index: none
-- locks: none
select id, created from ledger.emit_many(cast($1 as text)::json) order by ord
