create table ledger.credit (
  topic text not null,
  worker_no bigint not null,
  items integer not null,
  granted_until timestamptz not null,
  primary key (topic, worker_no),
  constraint credit_items_range check (items >= 0)
) with (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

comment on table ledger.credit is
  'How many items of a topic each worker wants waiting for it. Allocators claim no more.';
comment on column ledger.credit.worker_no is 'The worker, as an actor number.';
comment on column ledger.credit.granted_until is 'When the grant ends unless the worker renews it.';

create index credit_worker_idx on ledger.credit (worker_no);
