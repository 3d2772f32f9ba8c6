-- End a session of the console, unless it has ended.
-- returns: zero or one
-- roles: service
-- $1 id_digest bytea
-- index: console_session_pkey
-- locks: console_session row (for update)
update ledger.console_session s set expires_at = ledger.machine_now()
where s.id_digest = $1::bytea and s.expires_at > ledger.machine_now()
returning s.actor_no
