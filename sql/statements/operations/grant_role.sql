-- Grant a role to a login; with tenants, an emitter or relay may emit for these only.
-- returns: one
-- roles: owner
-- $1 role text
-- $2 login text
-- $3 tenants text[]
-- index: none
-- locks: none
select ledger.grant_role($1::text, $2::text, $3::text[])
