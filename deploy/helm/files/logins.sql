-- The logins of the processes, each with the roles that docs/security.md gives it. Run it by psql as an administrator,
-- after `dueledger migrate` and as often as you like: a login that exists gets its password and its roles again.
--
--   DUELEDGER_ALLOCATOR_PASSWORD=… psql --no-psqlrc --file=deploy/helm/files/logins.sql "$ADMINISTRATOR"
--
-- Passwords come from the environment: no command line and no file has them. A login whose variable is missing is left out.
-- The server's log has them where log_statement is `ddl` or more.
\set ON_ERROR_STOP on
\set alerter ''
\set allocator ''
\set direct_worker ''
\set intake ''
\set materialiser ''
\set outcome_intake ''
\set reconciler ''
\set relay ''
\set service ''
\set worker ''
\getenv alerter DUELEDGER_ALERTER_PASSWORD
\getenv allocator DUELEDGER_ALLOCATOR_PASSWORD
\getenv direct_worker DUELEDGER_DIRECT_WORKER_PASSWORD
\getenv intake DUELEDGER_INTAKE_PASSWORD
\getenv materialiser DUELEDGER_MATERIALISER_PASSWORD
\getenv outcome_intake DUELEDGER_OUTCOME_INTAKE_PASSWORD
\getenv reconciler DUELEDGER_RECONCILER_PASSWORD
\getenv relay DUELEDGER_RELAY_PASSWORD
\getenv service DUELEDGER_SERVICE_PASSWORD
\getenv worker DUELEDGER_WORKER_PASSWORD

set client_min_messages = warning; -- no notice of a role that a login has
begin;
create temporary table due_login (name text, password text, roles text[]) on commit drop;
insert into due_login
select l.name, l.password, l.roles
from (values
  ('due_alerter', :'alerter', '{ledger_alerter}'::text[]),
  ('due_allocator', :'allocator', '{ledger_allocator,ledger_upkeep}'),
  ('due_direct_worker', :'direct_worker', '{ledger_allocator,ledger_upkeep,ledger_worker}'),
  ('due_intake', :'intake', '{ledger_intake}'),
  ('due_materialiser', :'materialiser', '{ledger_materialiser}'),
  ('due_outcome_intake', :'outcome_intake', '{ledger_outcome_intake}'),
  ('due_reconciler', :'reconciler', '{ledger_reconciler}'),
  ('due_relay', :'relay', '{ledger_relay}'),
  ('due_service', :'service', '{ledger_service,ledger_auditor,ledger_emitter,ledger_intake,ledger_operator,ledger_approver,ledger_key_manager,ledger_pull_worker}'),
  ('due_worker', :'worker', '{ledger_worker}')
) l (name, password, roles)
where l.password <> '';

select format('create role %I login', l.name) from due_login l where to_regrole(l.name) is null \gexec
select format('alter role %I password %L', l.name, l.password) from due_login l \gexec
select format('grant %I to %I', r.role, l.name) from due_login l cross join lateral unnest(l.roles) r (role) \gexec
select format('grant connect on database %I to %I', current_database(), l.name) from due_login l \gexec
commit;
