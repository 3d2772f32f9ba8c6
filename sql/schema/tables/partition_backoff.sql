create table ledger.partition_backoff (
  topic text not null,
  partition integer not null,
  expirations smallint not null,
  available_at timestamptz not null,
  primary key (topic, partition)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

comment on table ledger.partition_backoff is
  'Partitions of topics whose published claims expired unstarted: their items wait before they are handed out again. '
  'The next start out of the partition deletes the row.';
comment on column ledger.partition_backoff.partition is 'Partition of the Kafka topic.';
comment on column ledger.partition_backoff.expirations is 'Times in a row that claims expired, one a backoff.';
comment on column ledger.partition_backoff.available_at is 'From when its items may be handed out again, by the business clock.';
