-- Lock the tz changes until the transaction ends: one at a time is recorded.
-- returns: one
-- index: none
-- locks: advisory, one
select pg_advisory_xact_lock(hashtextextended('ledger.tz_change', 0)) is not null as locked
