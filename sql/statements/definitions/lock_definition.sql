-- Hold a definition's name until the transaction ends, so that its next version, and each round a person names, is made by one.
-- returns: one
-- $1 tenant text
-- $2 name text
-- index: none
-- locks: advisory, one a definition name
select pg_advisory_xact_lock(
  hashtextextended('ledger.definition.' || $1::text || chr(31) || $2::text, 0)) is not null as held
