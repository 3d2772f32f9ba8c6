-- Lock a calendar's name until the transaction ends, so that one transaction at a time makes its next version.
-- returns: one
-- $1 tenant text
-- $2 name text
-- index: none
-- locks: advisory, one a calendar name
select pg_advisory_xact_lock(
  hashtextextended('ledger.calendar.' || $1::text || chr(31) || $2::text, 0)) is not null as locked
