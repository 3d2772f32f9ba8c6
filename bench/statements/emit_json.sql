-- Emit items as a service does in bulk, as JSON; returns how many are new.
-- returns: one
-- roles: owner
-- $1 items text
-- index: none
-- locks: none
select count(*) filter (where e.created) from ledger.emit_many($1::text::json) e
