create table ledger.actor (
  actor_no bigint generated always as identity primary key,
  name text not null unique,
  kind text not null,
  seen_at timestamptz not null default statement_timestamp(),
  tenants text[],
  constraint actor_kind_known check (
    kind in ('allocator', 'worker', 'materialiser', 'intake', 'reconciler', 'relay', 'alerter', 'person', 'service', 'api', 'key', 'oidc')
  )
);

-- Keys for the tenants of a caller are for one of these first: they are found among those of nobody else.
create index actor_tenant_idx on ledger.actor ((tenants[1])) where tenants is not null;

comment on table ledger.actor is
  'Who writes to the ledger: a process by its incarnation, a person, a service, an API key or a subject of tokens by name.';
comment on column ledger.actor.seen_at is 'When the actor was last registered.';
comment on column ledger.actor.tenants is
  'Of a service or an API key: the tenants for which alone it may act; null: each. Of a subject none: its token names them.';

create trigger actor_is_sealed after insert on ledger.actor
  for each row when (new.kind in ('person', 'service', 'api', 'key', 'oidc')) execute function ledger.seal_row();
