-- Open a session of the console: by an API key, or with the scopes and tenants of a token.
-- returns: one
-- roles: service
-- $1 id_digest bytea
-- $2 actor_no bigint
-- $3 key_no bigint
-- $4 scopes text[]
-- $5 tenants text[]
-- $6 seconds double precision
-- index: none
-- locks: none
insert into ledger.console_session (id_digest, actor_no, key_no, scopes, tenants, expires_at)
values ($1::bytea, $2::bigint, $3::bigint, $4::text[], $5::text[], ledger.machine_now() + make_interval(secs => $6::double precision))
returning expires_at
