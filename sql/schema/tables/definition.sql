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
  actor_no bigint not null references ledger.actor,
  unique (tenant, name, version),
  constraint definition_version_positive check (version > 0)
);

comment on table ledger.definition is
  'Versions of schedules, event rules and declarations of kinds. Never edited: the next version supersedes one.';
comment on column ledger.definition.definition_no is 'Number of the version.';
comment on column ledger.definition.event_type is
  'Type of the events that trigger an event rule; null for a schedule, and for the declaration of a kind (no `when`).';
comment on column ledger.definition.effective_from is 'When the version comes into force.';

create trigger definition_is_sealed after insert on ledger.definition
  for each row execute function ledger.seal_row();

create index definition_event_idx on ledger.definition (event_type, tenant) where event_type is not null;
create index definition_kind_idx on ledger.definition (kind, tenant, name);
create index definition_calendar_idx on ledger.definition (tenant, (document #>> '{calendar,name}'))
  where document #>> '{calendar,name}' is not null;
create index definition_source_idx on ledger.definition (tenant, (document ->> 'source')) where document ->> 'source' is not null;
create index definition_schedule_key_idx on ledger.definition (kind, tenant, (document ->> 'business_key'))
  where event_type is null;

create table ledger.materialised (
  definition_no bigint primary key references ledger.definition,
  materialised_until timestamptz not null,
  failed_at timestamptz,
  failure text,
  ends_at timestamptz not null default 'infinity',
  tzdata text
);

comment on table ledger.materialised is 'How far each version of a schedule is materialised.';
comment on column ledger.materialised.materialised_until is 'The materialised watermark; it only moves forward.';
comment on column ledger.materialised.failure is 'Why the version could not be materialised, at failed_at.';
comment on column ledger.materialised.ends_at is
  'When the next version takes over. Setting it waits until no process expands the version.';
comment on column ledger.materialised.tzdata is
  'The IANA version by which it was last expanded; null before. Another one may have moved occurrences over the watermark.';

-- Versions materialised up to their end are read again under a newer tz database only.
create index materialised_until_idx on ledger.materialised (materialised_until) where materialised_until < ends_at;
create index materialised_ends_at_idx on ledger.materialised (ends_at) where materialised_until >= ends_at;

create table ledger.missed_range (
  definition_no bigint not null references ledger.definition,
  from_at timestamptz not null,
  until_at timestamptz not null,
  occurrences bigint not null,
  reason text not null,
  recorded_at timestamptz not null,
  actor_no bigint not null references ledger.actor,
  primary key (definition_no, from_at),
  constraint missed_range_in_order check (from_at < until_at),
  constraint missed_range_occurrences_positive check (occurrences > 0),
  constraint missed_range_reason_known check (reason in ('catch_up'))
);

comment on table ledger.missed_range is
  'Missed ranges: occurrences that catch-up does not owe any more, where they are too many for a row each.';
comment on column ledger.missed_range.occurrences is 'How many occurrences the range has.';

create table ledger.triggered (
  tenant text not null,
  definition text not null,
  cycle text not null,
  id uuid not null,
  primary key (tenant, definition, cycle)
);

comment on table ledger.triggered is
  'Items that a person triggered. Triggering the same cycle again finds the first item, whatever the date is by then.';
comment on column ledger.triggered.id is 'Id of the item.';
