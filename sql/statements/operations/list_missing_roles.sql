-- List those of some roles that the login lacks; none where it owns the ledger, or where there is no ledger yet.
-- returns: zero or more
-- roles: alerter, allocator, auditor, intake, materialiser, outcome_intake, reconciler, relay, service, worker
-- $1 roles text[]
-- index: none
-- locks: none
select current_user::text as login, substr(r.rolname, 8) as role
from pg_roles r
where r.rolname = any (array(select 'ledger_' || u.role from unnest($1::text[]) u (role)))
  and not pg_has_role(r.oid, 'usage')
  and not exists (select from pg_namespace n where n.nspname = 'ledger' and pg_has_role(n.nspowner, 'usage'))
order by r.rolname
