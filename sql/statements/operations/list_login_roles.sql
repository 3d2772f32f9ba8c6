-- List the roles of the ledger that a login was granted.
-- returns: zero or more
-- roles: owner
-- $1 login text
-- index: none
-- locks: none
select substr(r.rolname, 8) as role
from pg_auth_members m
join pg_roles r on r.oid = m.roleid
join pg_roles l on l.oid = m.member
where l.rolname = $1::text and r.rolname like 'ledger\_%'
order by r.rolname
