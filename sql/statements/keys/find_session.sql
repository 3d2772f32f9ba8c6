-- Find a session of the console that has not ended, with the rights that it has now; one by a key ends with the key.
-- returns: zero or one
-- roles: service
-- $1 id_digest bytea
-- index: console_session_pkey, actor_pkey, api_key_pkey
-- locks: none
select s.actor_no, a.name, coalesce(k.scopes, s.scopes) as scopes,
  case when s.key_no is null then s.tenants else a.tenants end as tenants, s.key_no,
  k.rate_per_second, k.rate_burst,
  s.key_no is not null and coalesce(k.last_used_at < ledger.machine_now() - interval '1 minute', true) as is_use_due
from ledger.console_session s
join ledger.actor a on a.actor_no = s.actor_no
left join ledger.api_key k on k.key_no = s.key_no
where s.id_digest = $1::bytea and s.expires_at > ledger.machine_now()
  and (s.key_no is null or (k.revoked_at is null and coalesce(k.expires_at > ledger.machine_now(), true)))
