create table ledger.alert (
  name text not null,
  labels jsonb not null,
  value double precision not null,
  since timestamptz not null,
  ended_at timestamptz,
  sent_to jsonb not null,
  end_sent_to jsonb not null default '[]',
  primary key (name, labels)
) with (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

comment on table ledger.alert is
  'Alerts that `dueledger alert` found, until their end was sent to each channel that had them.';
comment on column ledger.alert.labels is 'Values of the labels of its rule, as an array.';
comment on column ledger.alert.since is 'When it was found first; by the machine clock.';
comment on column ledger.alert.ended_at is 'When it was not found any more.';
comment on column ledger.alert.sent_to is 'Channels that have it, as an array of names.';
comment on column ledger.alert.end_sent_to is 'Channels that have its end. Once each of sent_to is among them, the row is deleted.';
