-- Read the key under which cursors of lists are sealed.
-- returns: one
-- roles: service
-- index: none
-- locks: none
select s.secret from ledger.cursor_secret s
