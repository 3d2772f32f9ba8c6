create table ledger.due_item (
  effective_date date not null,
  flow_no integer not null,
  item_no bigint generated always as identity,
  id uuid not null,
  business_key text not null,
  cycle text not null,
  due_at timestamptz not null,
  start_by timestamptz,
  complete_by timestamptz,
  partition_key text,
  payload json not null,
  labels jsonb,
  definition_no bigint,
  event_no bigint,
  tzdata text,
  nominal text,
  zone text,
  decision text,
  smear_seconds double precision,
  traceparent text,
  emitted_at timestamptz not null,
  actor_no bigint not null,
  serial bigint,
  overlap smallint,
  primary key (effective_date, item_no),
  unique (id, effective_date),
  constraint due_item_valid check (
    ledger.due_item_valid(effective_date, due_at, business_key, cycle, partition_key, payload, labels))
) partition by range (effective_date);

comment on table ledger.due_item is
  'What is owed. A row changes only while its item was never handed out, and the journal then has what it was before. '
  'Partitioned by month.';
comment on column ledger.due_item.effective_date is 'The business date that the item is for.';
comment on column ledger.due_item.item_no is 'Number of the item within the ledger; other tables name items by it.';
comment on column ledger.due_item.id is
  'Public id: a hash of tenant, kind, business key, cycle and effective date (ledger.item_id).';
comment on column ledger.due_item.cycle is 'Name that tells the occurrences of one business key apart.';
comment on column ledger.due_item.due_at is 'When the business owes the item.';
comment on column ledger.due_item.start_by is 'SLA: when it must be started.';
comment on column ledger.due_item.complete_by is 'SLA: when it must be completed.';
comment on column ledger.due_item.partition_key is 'Key of the Kafka record; null: the business key.';
comment on column ledger.due_item.definition_no is
  'Version of the definition that owes it; null for an item emitted directly.';
comment on column ledger.due_item.event_no is 'Domain event that implied it.';
comment on column ledger.due_item.tzdata is 'Version of the tz database that placed due_at.';
comment on column ledger.due_item.nominal is
  'Local time that the rule names, before gaps, folds, calendars and smear.';
comment on column ledger.due_item.zone is 'Time zone of the nominal time.';
comment on column ledger.due_item.decision is 'Why due_at is not the nominal time: gap, fold or roll.';
comment on column ledger.due_item.smear_seconds is 'Delay by smear, contained in due_at.';
comment on column ledger.due_item.traceparent is 'W3C trace context of the emitter.';
comment on column ledger.due_item.serial is
  'For serial items: hash of kind and key (ledger.serial_of). Two keys with one hash only wait for each other.';
comment on column ledger.due_item.overlap is
  'For serial items, while another of the key is handed out: 1 wait in order, 2 skip, 3 keep one waiting and skip the rest, '
  '4 cancel the running one.';

create index due_item_key_idx on ledger.due_item (business_key, flow_no);
-- A tenant's list reads its own items alone, however few they are among those of others. An emission of arrays takes 7 % more CPU.
create index due_item_flow_idx on ledger.due_item (flow_no, effective_date, item_no);

-- Emission makes no partition. Items of a month without one wait here until upkeep makes it: ledger.make_partition,
-- which excludes everybody from this table. The planner reads the list of partitions first and locks them afterwards.
-- A statement that finds items therefore has this table in an unused CTE, locked_default: tables that are named are
-- locked before the statement is planned, so that its plan has the partition of each row that it sees.
create table ledger.due_item_default partition of ledger.due_item default;

create table ledger.retired_key (
  id uuid primary key,
  retired_at timestamptz not null
);

comment on table ledger.retired_key is
  'Ids of items whose partition was dropped. Emitting one of them again changes nothing.';

create table ledger.expedited (
  item_no bigint primary key,
  effective_date date not null,
  expedited_at timestamptz not null,
  actor_no bigint not null,
  reason text not null,
  flow_no integer not null,
  due_at timestamptz not null
);
-- A list in the order of due times goes on after such an item, and reads what waits in the order in which it is available.
create index expedited_due_idx on ledger.expedited (flow_no, due_at, item_no);

comment on table ledger.expedited is 'Items that a named person made available before due_at, which stays as it is.';
