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

comment on table ledger.event is
  'The inbox: received domain events. A duplicate has the same source, id and time. Partitioned by month.';
comment on column ledger.event.source is 'CloudEvents source; with id it identifies the event.';
comment on column ledger.event.subject is 'CloudEvents subject.';
comment on column ledger.event.body is 'The event as it was received.';
comment on column ledger.event.matched is 'Whether an event rule applied to it when it was received.';

create index event_key_idx on ledger.event (tenant, business_key, occurred_at);
create index event_type_idx on ledger.event (tenant, type, occurred_at);
