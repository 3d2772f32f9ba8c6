create table ledger.stalled_partition (
  topic text not null,
  partition integer not null,
  worker_no bigint not null,
  next_offset bigint,
  waits_for_handlers boolean not null,
  stalled_at timestamptz not null,
  primary key (topic, partition, worker_no)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

comment on table ledger.stalled_partition is
  'Partitions of topics that a worker has, and with which it has got no further for longer than the queue deadline.';
comment on column ledger.stalled_partition.partition is 'Partition of the Kafka topic.';
comment on column ledger.stalled_partition.worker_no is 'The worker, as an actor number.';
comment on column ledger.stalled_partition.next_offset is 'Offset that the worker begins or reads next; null if it does not know yet.';
comment on column ledger.stalled_partition.waits_for_handlers is
  'Whether its records were read and wait for handlers; otherwise none is read.';
comment on column ledger.stalled_partition.stalled_at is 'Since when the worker has got no further, by the machine clock.';

create index stalled_partition_worker_idx on ledger.stalled_partition (worker_no);
