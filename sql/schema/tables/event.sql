create table ledger.event_key (
  tenant text not null,
  source text not null,
  id text not null,
  event_no bigint generated always as identity,
  occurred_at timestamptz not null,
  received_at timestamptz not null,
  primary key (tenant, source, id)
);

comment on table ledger.event_key is
  'Which events the inbox has: the first of a tenant, source and id. Forgotten after some time, because the inbox itself is '
  'partitioned by another time and cannot be unique.';
comment on column ledger.event_key.event_no is 'Number of the event within the ledger; the inbox and items name events by it.';

create index event_key_received_at_idx on ledger.event_key (received_at);

create table ledger.event (
  event_no bigint not null,
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
  actor_no bigint,
  primary key (event_no, occurred_at)
) partition by range (occurred_at);

comment on table ledger.event is
  'The inbox: received domain events, each once (event_key). Partitioned by month.';
comment on column ledger.event.source is 'CloudEvents source; with tenant and id it identifies the event.';
comment on column ledger.event.subject is 'CloudEvents subject.';
comment on column ledger.event.body is 'The event as it was received.';
comment on column ledger.event.matched is 'Whether an event rule applied to it when it was received.';
comment on column ledger.event.actor_no is 'Who recorded it: an intake, or a key or token by HTTP.';

create table ledger.event_other_key (
  tenant text not null,
  business_key text not null,
  event_no bigint not null,
  occurred_at timestamptz not null,
  primary key (tenant, business_key, event_no)
);

comment on table ledger.event_other_key is
  'Events whose effects are on several business keys: `event` has the first, this table the others.';

create index event_key_idx on ledger.event (tenant, business_key, occurred_at);
create index event_type_idx on ledger.event (tenant, type, occurred_at);
create index event_unmatched_idx on ledger.event (tenant, type, received_at, event_no) where matched is not true;
