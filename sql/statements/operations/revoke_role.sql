-- Revoke a role from a login.
-- returns: one
-- roles: owner
-- $1 role text
-- $2 login text
-- index: none
-- locks: none
select ledger.revoke_role($1::text, $2::text)
