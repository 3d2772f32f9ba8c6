create table ledger.audit (
  audit_no bigint generated always as identity primary key,
  at timestamptz not null default ledger.now(),
  actor_no bigint not null references ledger.actor,
  login text not null default session_user,
  role text not null default current_user,
  operation text not null,
  target text not null,
  tenants text[],
  reason text,
  detail jsonb,
  request_id text,
  constraint audit_tenants_named check (cardinality(tenants) > 0)
);

comment on table ledger.audit is
  'What people, API keys and tokens changed, each entry written in the transaction of its change. Append only; '
  'upkeep deletes entries of a certain age.';
comment on column ledger.audit.login is 'The login to Postgres, which nobody but the server names.';
comment on column ledger.audit.role is
  'The role whose rights the change had: of a request that of its scope, of a command that of its login.';
comment on column ledger.audit.operation is 'As in the OpenAPI document; commands name the same.';
comment on column ledger.audit.target is 'What was changed, as a path: definitions/acme/statements.';
comment on column ledger.audit.tenants is 'Those that it concerns; null: all, or none alone.';
comment on column ledger.audit.request_id is 'Of a request by HTTP; null for a command.';

-- What concerns tenants of a caller alone begins with one of these. In an order that no other index has, as in operation.
create index audit_tenant_idx on ledger.audit ((tenants[1]), (at at time zone 'UTC'), audit_no) where tenants is not null;
create index audit_at_idx on ledger.audit (at, audit_no);
create index audit_target_idx on ledger.audit (target, at, audit_no);
-- Few actors make most entries: an index in the order of the time alone would seem as good.
create index audit_actor_idx on ledger.audit (actor_no, (at at time zone 'UTC'), audit_no);
create index audit_operation_idx on ledger.audit (operation, at, audit_no);
