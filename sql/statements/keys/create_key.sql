-- Make an API key; keys of one name are one actor, for the same tenants. None where the tenants differ.
-- returns: zero or one
-- roles: key_manager, owner
-- $1 name text
-- $2 prefix text
-- $3 secret_digest bytea
-- $4 scopes text[]
-- $5 tenants text[]
-- $6 expires_at timestamptz
-- $7 created_by bigint
-- $8 rate_per_second double precision
-- $9 rate_burst integer
-- index: none
-- locks: actor row (for update)
with actor as (
  insert into ledger.actor as a (name, kind, tenants) values ($1::text, 'key', $5::text[])
  on conflict on constraint actor_name_key do update set seen_at = statement_timestamp()
  where a.tenants is not distinct from excluded.tenants
  returning a.actor_no
)
insert into ledger.api_key (prefix, secret_digest, actor_no, scopes, expires_at, created_by, rate_per_second, rate_burst)
select $2::text, $3::bytea, a.actor_no, $4::text[], $6::timestamptz, $7::bigint, $8::double precision, $9::integer
from actor a
returning key_no
