-- Delete grants that ended long ago.
-- returns: zero
-- index: none
-- locks: credit rows (for update)
delete from ledger.credit c where c.granted_until < ledger.machine_now() - interval '10 minutes'
