-- Hold the changes by tz databases until the transaction ends: one at a time is drawn up.
-- returns: one
-- index: none
-- locks: advisory, one
select pg_advisory_xact_lock(hashtextextended('ledger.tz_change', 0)) is not null as held
