-- Forget the sessions of the console that ended first, a day ago or earlier.
-- returns: one
-- roles: upkeep
-- $1 limit integer
-- index: console_session_expires_idx, console_session_pkey
-- locks: console_session rows (for update, skip locked)
with ended as materialized (
  select s.id_digest from ledger.console_session s
  where s.expires_at < ledger.machine_now() - interval '1 day'
  order by s.expires_at limit $1::integer
  for update skip locked
),
forgotten as (
  delete from ledger.console_session s using ended e where s.id_digest = e.id_digest returning s.actor_no
)
select count(*)::integer as forgotten from forgotten
