-- The defaults of a kind are declared here and nowhere else in SQL.
create table ledger.kind (
  kind_no integer generated always as identity primary key,
  tenant text not null,
  name text not null,
  topic text not null,
  queue_seconds integer not null default 120,
  lease_seconds integer not null default 60,
  attempt_max smallint not null default 5,
  start_max smallint not null default 30,
  backoff_base_seconds double precision not null default 10,
  backoff_cap_seconds double precision not null default 600,
  grace_seconds integer not null default 900,
  dispatch text not null default 'kafka',
  http jsonb,
  settled_by text not null default 'worker',
  dispatch_seconds integer not null default 30,
  run_seconds double precision,
  total_seconds double precision,
  queue_late text not null default 'retry',
  run_late text not null default 'retry',
  ordering text not null default 'none',
  failure_holds boolean not null default true,
  streak_max smallint not null default 3,
  outcome_topic text,
  compression text,
  no_replay boolean not null default false,
  redacted_fields text[] not null default '{}',
  operation_approval_above integer,
  policy_version integer not null default 1,
  unique (tenant, name),
  unique (kind_no, tenant, name, ordering),
  constraint kind_tenant_shape check (tenant ~ '^[A-Za-z0-9._-]{1,100}$'),
  constraint kind_name_shape check (name ~ '^[A-Za-z0-9._-]{1,100}$'),
  constraint kind_seconds_positive check (
    queue_seconds > 0 and lease_seconds > 0 and backoff_base_seconds > 0
    and backoff_cap_seconds >= backoff_base_seconds and grace_seconds >= 0
  ),
  constraint kind_counts_positive check (attempt_max > 0 and start_max >= attempt_max),
  constraint kind_dispatch_known check (dispatch in ('kafka', 'direct', 'http')),
  constraint kind_http_given check ((dispatch = 'http') = (http is not null)),
  constraint kind_settled_by_known check (settled_by in ('worker', 'topic')),
  constraint kind_compression_known check (compression in ('none', 'gzip', 'lz4')),
  constraint kind_policy_positive check (
    dispatch_seconds > 0 and run_seconds > 0 and total_seconds > 0 and streak_max > 0),
  constraint kind_late_known check (queue_late in ('retry', 'park') and run_late in ('retry', 'park')),
  constraint kind_redacted_fields_max check (cardinality(redacted_fields) <= 50),
  constraint kind_operation_approval_bounded check (operation_approval_above between 0 and 10000),
  constraint kind_ordering_known check (ordering in ('none', 'key'))
);
-- A page of kinds goes on after the last one of the page before, in an order that programs have, too.
create index kind_name_order_idx on ledger.kind (tenant collate "C", name collate "C");
create index kind_name_idx on ledger.kind (name collate "C");
create index kind_approval_idx on ledger.kind (tenant, name) where operation_approval_above is not null;

comment on table ledger.kind is
  'Types of work of each tenant, and how their items are handed out and retried. Made at the first emission, set by define.';
comment on column ledger.kind.topic is 'Kafka topic to which claims of the kind are published.';
comment on column ledger.kind.queue_seconds is
  'Time from the acknowledgement by Kafka until a worker must have started the items.';
comment on column ledger.kind.lease_seconds is
  'Lease of a run that is settled by topic; a worker has a lease of its own.';
comment on column ledger.kind.attempt_max is 'Attempts after which a failed item is parked.';
comment on column ledger.kind.start_max is 'Starts after which an item is parked, snoozes and lost workers included.';
comment on column ledger.kind.backoff_base_seconds is
  'First bound of the backoff; it doubles with each attempt. Full jitter.';
comment on column ledger.kind.backoff_cap_seconds is 'Upper bound of the backoff.';
comment on column ledger.kind.grace_seconds is 'Time after due_at from which an open item is overdue.';
comment on column ledger.kind.dispatch is
  'How items reach a handler: through Kafka, claimed by workers (direct), or by HTTP.';
comment on column ledger.kind.http is 'Endpoint and options of the dispatch by HTTP.';
comment on column ledger.kind.settled_by is
  'Who settles: the worker, or the consumers of the topic by reported outcomes.';
comment on column ledger.kind.outcome_topic is
  'Kafka topic from which alone outcomes of the kind''s items are accepted; null: the one of the outcome intake''s settings.';
comment on column ledger.kind.compression is
  'Codec of the record batches of the topic; null: the one of the allocator''s settings.';
comment on column ledger.kind.no_replay is
  'Whether no item of the kind may be worked again by a repair once it was handed out, or may have been.';
comment on column ledger.kind.operation_approval_above is
  'Matched items above which an operation waits for a second person; null: it never does.';
comment on column ledger.kind.redacted_fields is
  'JSON Pointers into payloads whose values nobody is shown; handlers get them.';
comment on column ledger.kind.dispatch_seconds is 'Time from the claim until Kafka must have acknowledged it.';
comment on column ledger.kind.run_seconds is
  'Longest time of a run; no heartbeat extends its lease beyond it. Null: no limit.';
comment on column ledger.kind.total_seconds is
  'Time after due_at from which a failed item is parked and not retried. Null: no limit.';
comment on column ledger.kind.queue_late is 'What happens to items that were not started in time.';
comment on column ledger.kind.run_late is 'What happens to items of a run that took longer than run_seconds.';
comment on column ledger.kind.ordering is
  'Whether items of one partition key run one after another, in the order of due_at.';
comment on column ledger.kind.failure_holds is 'Whether a failed serial item keeps its key until it ends.';
comment on column ledger.kind.streak_max is 'Failures in a row of one business key that are flagged.';
comment on column ledger.kind.policy_version is
  'How often its policy was put. The row is sealed with it: one that was changed without is a finding.';

create trigger kind_is_sealed after insert on ledger.kind
  for each row execute function ledger.seal_row();
create trigger kind_is_sealed_again after update on ledger.kind
  for each row when (new.policy_version <> old.policy_version) execute function ledger.seal_row();
