create table ledger.past_load (
  tenant text not null,
  kind text not null,
  quarter timestamptz not null,
  effective_date date not null,
  items integer not null,
  completed integer not null,
  completed_late integer not null,
  in_review integer not null,
  withdrawn integer not null,
  written_off integer not null,
  had_failures integer not null,
  primary key (tenant, kind, quarter, effective_date)
);

comment on table ledger.past_load is
  'Results of the items that were due in each quarter hour of the last five weeks, by kind. Passes of reconciliation write what has '
  'changed of the dates that they read.';
comment on column ledger.past_load.tenant is 'Empty: all tenants.';
comment on column ledger.past_load.kind is 'Empty: all kinds of the tenant.';
comment on column ledger.past_load.quarter is 'Begin of the quarter hour, in UTC.';
comment on column ledger.past_load.effective_date is 'That of the items: a pass reads items by it.';
comment on column ledger.past_load.completed_late is 'Those of them that were completed after their SLA.';
comment on column ledger.past_load.withdrawn is 'Items that were cancelled, superseded or skipped.';
comment on column ledger.past_load.had_failures is 'Items of which an attempt failed, timed out or was parked, whatever their results.';

create index past_load_date_idx on ledger.past_load (effective_date);
create index past_load_quarter_idx on ledger.past_load (quarter);

create table ledger.past_sum (
  tenant text not null,
  kind text not null,
  minutes smallint not null,
  begins timestamptz not null,
  items integer not null,
  completed integer not null,
  completed_late integer not null,
  in_review integer not null,
  withdrawn integer not null,
  written_off integer not null,
  had_failures integer not null,
  primary key (tenant, kind, minutes, begins),
  constraint past_sum_minutes_known check (minutes in (15, 60, 360, 1440))
);

comment on table ledger.past_sum is
  'Sums of past_load over effective dates, by quarter hour, hour, six hours and day in UTC: what pages read. Triggers of past_load keep them.';
comment on column ledger.past_sum.tenant is 'Empty: all tenants.';
comment on column ledger.past_sum.kind is 'Empty: all kinds of the tenant.';
comment on column ledger.past_sum.minutes is 'How long the span is: a quarter hour, an hour, six hours or a day.';
comment on column ledger.past_sum.begins is 'Begin of the span, in UTC.';
comment on column ledger.past_sum.completed_late is 'Those of them that were completed after their SLA.';
comment on column ledger.past_sum.withdrawn is 'Items that were cancelled, superseded or skipped.';
comment on column ledger.past_sum.had_failures is 'Items of which an attempt failed, timed out or was parked, whatever their results.';

create index past_sum_empty_idx on ledger.past_sum (items) where items = 0;

create table ledger.past_load_count (
  one boolean primary key default true,
  as_of timestamptz not null,
  counted_from timestamptz not null,
  constraint past_load_count_is_one check (one)
);

comment on table ledger.past_load_count is
  'Of which time the past load is known, in one row: a pass that compared the whole ledger has counted all items that were due in it.';
comment on column ledger.past_load_count.as_of is 'The moment on business time for which they were counted.';
comment on column ledger.past_load_count.counted_from is 'The begin of the first quarter hour that is counted.';
