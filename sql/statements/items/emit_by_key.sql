-- Emit the items of a document, a JSON array, in the name of an API key; one that is refused refuses all.
-- returns: zero or more, one for each item, in order
-- roles: emitter
-- $1 document text
-- index: none
-- locks: none
select e.id, e.created
from ledger.emit_many($1::text::json -> 'items') e
order by e.ord
