-- Find the items of a document, a JSON array, that the ledger has with other terms, of those at some places.
-- returns: zero or more, one for each member that differs
-- roles: emitter
-- $1 document text
-- $2 ords bigint[]
-- index: none
-- locks: none
select t.ord, t.member from ledger.find_other_terms($1::text::json -> 'items', $2::bigint[]) t order by t.ord, t.member
