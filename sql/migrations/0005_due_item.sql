-- What is owed, and what ended it. Both partitioned by the month of the effective date, both append-only.

create table ledger.due_item (
  effective_date date not null,
  item_no bigint generated always as identity,
  id uuid not null,
  flow_no integer not null,
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
  actor_no integer not null,
  primary key (effective_date, item_no),
  unique (id, effective_date),
  constraint due_item_effective_date_range check (
    effective_date >= date '1970-01-01' and effective_date < date '2200-01-01'
  ),
  constraint due_item_due_at_range check (
    due_at >= timestamptz '1970-01-01T00:00:00Z' and due_at < timestamptz '2200-01-01T00:00:00Z'
  ),
  constraint due_item_payload_bytes_max check (octet_length(payload::text) <= 262144),
  constraint due_item_business_key_length check (char_length(business_key) between 1 and 512),
  constraint due_item_cycle_length check (char_length(cycle) <= 200),
  constraint due_item_partition_key_length check (char_length(partition_key) between 1 and 512),
  constraint due_item_labels_bytes_max check (octet_length(labels::text) <= 8192),
  constraint due_item_separator_free check (strpos(business_key || cycle, chr(31)) = 0)
) partition by range (effective_date);

create index due_item_key_idx on ledger.due_item (business_key, flow_no);
create index due_item_due_idx on ledger.due_item (due_at);

create table ledger.transition (
  effective_date date not null,
  item_no bigint not null,
  event smallint not null,
  attempt smallint not null,
  run_no bigint,
  actor_no integer not null,
  at timestamptz not null,
  detail jsonb
) partition by range (effective_date);

-- At most one terminal row an item, whatever a statement thinks.
create unique index transition_terminal_idx on ledger.transition (item_no, effective_date)
  where event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */);
create index transition_item_idx on ledger.transition (item_no, effective_date)
  where event not in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */);

-- Ids whose partitions were dropped: a replay is still answered, never repeated.
create table ledger.retired_key (
  id uuid primary key,
  retired_at timestamptz not null
);
