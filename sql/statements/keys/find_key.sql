-- Find an API key by its prefix, with its actor and whether it is valid now.
-- returns: zero or one
-- roles: service
-- $1 prefix text
-- index: api_key_prefix_key
-- locks: none
select k.key_no, k.secret_digest, k.actor_no, a.name, a.tenants, k.scopes, k.rate_per_second, k.rate_burst,
  k.revoked_at is null and coalesce(k.expires_at > ledger.machine_now(), true) as is_valid,
  coalesce(k.last_used_at < ledger.machine_now() - interval '1 minute', true) as is_use_due
from ledger.api_key k
join ledger.actor a on a.actor_no = k.actor_no
where k.prefix = $1::text
