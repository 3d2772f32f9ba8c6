-- End the open sessions of the console that an actor has.
-- returns: one
-- roles: owner
-- $1 name text
-- index: actor_name_key, console_session_expires_idx
-- locks: console_session rows (for update)
with ended as (
  update ledger.console_session s set expires_at = ledger.machine_now()
  where s.actor_no = (select a.actor_no from ledger.actor a where a.name = $1::text) and s.expires_at > ledger.machine_now()
  returning s.actor_no
)
select count(*)::integer as ended from ended
