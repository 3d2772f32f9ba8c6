-- Definitions are never edited, only superseded by a version; events land raw in an inbox.

create table ledger.definition (
  definition_no bigint generated always as identity primary key,
  tenant text not null,
  name text not null,
  version integer not null,
  kind text not null,
  event_type text,
  document jsonb not null,
  effective_from timestamptz not null,
  created_at timestamptz not null,
  actor_no integer not null references ledger.actor,
  unique (tenant, name, version),
  constraint definition_version_positive check (version > 0)
);

create index definition_event_idx on ledger.definition (event_type, tenant) where event_type is not null;

-- How far a scheduled definition is materialised. Only ever moves forward.
create table ledger.materialised (
  definition_no bigint primary key references ledger.definition,
  materialised_until timestamptz not null,
  failed_at timestamptz,
  failure text
);

create index materialised_until_idx on ledger.materialised (materialised_until);

create table ledger.calendar (
  calendar_no bigint generated always as identity primary key,
  tenant text not null,
  name text not null,
  version integer not null,
  document jsonb not null,
  valid_to date not null,
  created_at timestamptz not null,
  actor_no integer not null references ledger.actor,
  unique (tenant, name, version)
);

-- The inbox. A duplicate carries the same source, id and time.
create table ledger.event (
  event_no bigint generated always as identity,
  tenant text not null,
  source text not null,
  id text not null,
  type text not null,
  occurred_at timestamptz not null,
  subject text,
  business_key text,
  body jsonb not null,
  traceparent text,
  received_at timestamptz not null,
  matched boolean,
  primary key (event_no, occurred_at),
  unique (source, id, occurred_at)
) partition by range (occurred_at);

create index event_key_idx on ledger.event (tenant, business_key, occurred_at);
create index event_type_idx on ledger.event (tenant, type, occurred_at);
