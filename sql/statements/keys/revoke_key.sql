-- Revoke an API key, unless it was revoked before.
-- returns: zero or one, none where there is no such key, or it is revoked
-- roles: key_manager, owner
-- $1 prefix text
-- $2 revoked_by bigint
-- $3 tenants text[]
-- index: api_key_prefix_key
-- locks: api_key row (for update)
update ledger.api_key k set revoked_at = statement_timestamp(), revoked_by = $2::bigint
from ledger.actor a
where k.prefix = $1::text and k.revoked_at is null
  and a.actor_no = k.actor_no and ($3::text[] is null or a.tenants <@ $3::text[])
returning k.prefix, a.tenants, k.scopes
