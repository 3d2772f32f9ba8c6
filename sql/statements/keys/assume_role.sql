-- Give the rest of the transaction the rights of one role, name the API key or token for which it acts, and limit the time of each statement; return the time now.
-- returns: one
-- roles: service
-- $1 role text
-- $2 name text
-- $3 token_tenants text[]
-- $4 statement_seconds double precision
-- index: none
-- locks: none
select ledger.now() as now, set_config('role', 'ledger_' || $1::text, true) as role, set_config('ledger.key_name', $2::text, true) as name,
  set_config('ledger.token_tenants', coalesce($3::text[]::text, ''), true) as tenants,
  set_config('statement_timeout', coalesce(round($4::double precision * 1000)::text, current_setting('statement_timeout')), true) as limited
