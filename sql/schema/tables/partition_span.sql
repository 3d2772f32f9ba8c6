create table ledger.partition_span (
  parent text not null,
  starts_on date not null,
  ends_before date not null,
  leaf regclass,
  made_at timestamptz not null default clock_timestamp(),
  checked_at timestamptz,
  finished_at timestamptz,
  has_retired boolean not null default false,
  primary key (parent, starts_on)
);

comment on table ledger.partition_span is
  'Table partitions that exist: a month each from 2020 to 2049, a year each before and after, '
  'so that scattered dates cannot make more than some hundreds of them.';
comment on column ledger.partition_span.parent is 'The partitioned table. The row of due_item covers transition, too.';
comment on column ledger.partition_span.leaf is
  'The table partition; null where it is not made, because the default partition has too many rows to move at once.';
comment on column ledger.partition_span.has_retired is
  'Of items: whether the month was dropped before and made again, so that its retired keys are asked for.';
comment on column ledger.partition_span.checked_at is 'When the items of the month were last counted.';
comment on column ledger.partition_span.finished_at is
  'Of claims and runs: when the month was over and had no open row. None opens in it again.';
