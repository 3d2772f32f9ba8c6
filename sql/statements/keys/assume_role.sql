-- Give the rest of the transaction the rights of one role, and name the API key or token for which it acts.
-- returns: one
-- roles: service
-- $1 role text
-- $2 name text
-- $3 token_tenants text[]
-- index: none
-- locks: none
select set_config('role', 'ledger_' || $1::text, true) as role, set_config('ledger.key_name', $2::text, true) as name,
  set_config('ledger.token_tenants', coalesce($3::text[]::text, ''), true) as tenants
