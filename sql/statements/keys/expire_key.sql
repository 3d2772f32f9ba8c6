-- Let a valid API key expire after some seconds, if it does not expire before; return what its successor inherits.
-- returns: zero or one, none where there is no such key, or it is not valid
-- roles: key_manager, owner
-- $1 prefix text
-- $2 seconds double precision
-- $3 tenants text[]
-- index: api_key_prefix_key
-- locks: api_key row (for update)
with locked as materialized (
  select k.key_no, k.expires_at from ledger.api_key k where k.prefix = $1::text for update
)
update ledger.api_key k
set expires_at = least(k.expires_at, ledger.machine_now() + make_interval(secs => $2::double precision))
from ledger.actor a, locked l
where k.prefix = $1::text and k.key_no = l.key_no and a.actor_no = k.actor_no
  and ($3::text[] is null or a.tenants <@ $3::text[])
  and k.revoked_at is null and coalesce(k.expires_at > ledger.machine_now(), true)
returning a.name, k.scopes, a.tenants, k.rate_per_second, k.rate_burst, k.expires_at, l.expires_at as expired_at
