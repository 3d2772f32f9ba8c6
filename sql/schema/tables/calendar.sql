create table ledger.calendar (
  calendar_no bigint generated always as identity primary key,
  tenant text not null,
  name text not null,
  version integer not null,
  document jsonb not null,
  valid_to date not null,
  created_at timestamptz not null,
  actor_no bigint not null references ledger.actor,
  source text,
  unique (tenant, name, version)
);

comment on table ledger.calendar is 'Versions of calendars: the business days of a tenant, by name.';
comment on column ledger.calendar.calendar_no is 'Number of the version.';
comment on column ledger.calendar.valid_to is
  'The last day that the version knows; a later day is an error, not a business day.';
comment on column ledger.calendar.source is 'Where the days come from: a file, a country, an exchange.';

create trigger calendar_is_sealed after insert on ledger.calendar
  for each row execute function ledger.seal_row();

create table ledger.calendar_use (
  definition_no bigint not null references ledger.definition,
  from_at timestamptz not null,
  calendar_no bigint not null references ledger.calendar,
  recorded_at timestamptz not null,
  actor_no bigint not null references ledger.actor,
  primary key (definition_no, from_at)
);

comment on table ledger.calendar_use is 'Which version of its calendar each definition was expanded by. Append only.';
comment on column ledger.calendar_use.from_at is
  'First instant of the occurrences that the version decided; the next row of the definition ends it.';
