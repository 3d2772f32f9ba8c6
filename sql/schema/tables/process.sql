create table ledger.process (
  process_no bigint primary key references ledger.actor,
  role text not null,
  host text not null,
  version text not null,
  started_at timestamptz not null,
  seen_at timestamptz not null,
  ended_at timestamptz,
  locked_on timestamptz,
  unlocked_at timestamptz,
  yields boolean not null default false,
  kinds text[],
  kind_tenants jsonb,
  sleeps_until timestamptz,
  failing_since timestamptz,
  failure text,
  failed_service text,
  unavailable_topics jsonb,
  does_upkeep boolean,
  certificate_expires_at timestamptz,
  drains boolean not null default false,
  drain_asked_at timestamptz,
  drain_asked_by bigint references ledger.actor,
  drain_reason text,
  draining_since timestamptz,
  ticked_at timestamptz,
  tick_seconds double precision,
  outbox_items integer,
  constraint process_drain_named check (
    (drain_asked_at is null) = (drain_asked_by is null) and (drain_asked_at is null) = (drain_reason is null)),
  constraint process_role_known check (role in (
    'allocator', 'worker', 'direct_worker', 'outcome_intake', 'intake', 'materialiser', 'reconciler', 'relay', 'service',
    'alerter'))
) with (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

comment on table ledger.process is
  'Processes: one row an incarnation. Upkeep deletes rows of those that ended an hour ago or were not seen for a week.';
comment on column ledger.process.process_no is 'Actor number of the process.';
comment on column ledger.process.host is 'Name of its machine or container.';
comment on column ledger.process.version is 'Version of dueledger that it runs.';
comment on column ledger.process.seen_at is 'When it last renewed the row: each five seconds while it lives.';
comment on column ledger.process.ended_at is 'When it stopped in order; null while it lives, and if it was killed.';
comment on column ledger.process.unlocked_at is
  'Since when upkeep finds its lock missing; null while it has it.';
comment on column ledger.process.yields is
  'It stops its handlers within three seconds after it lost its lock: then its runs may be released after four. '
  'False of a worker with handlers in threads, which nothing stops: its leases decide.';
comment on column ledger.process.kinds is
  'Of a worker: the kinds of its handlers; one without Kafka claims these. An allocator claims all kinds that are not direct.';
comment on column ledger.process.kind_tenants is
  'Of kinds of which it takes the items of some tenants alone: these tenants, as an array by kind. Null: of all kinds, those of all.';
comment on column ledger.process.does_upkeep is
  'Whether it does upkeep; null of a process before this column: then an allocator or a direct worker does.';
comment on column ledger.process.failing_since is
  'Since when its attempts to take work fail, the same one after another; null while they succeed.';
comment on column ledger.process.failure is 'The error of these attempts.';
comment on column ledger.process.failed_service is 'The service that did not respond to it, as kafka; null for other errors.';
comment on column ledger.process.unavailable_topics is
  'Topics to which an allocator could not publish when it last tried, each with the reason.';
comment on column ledger.process.certificate_expires_at is
  'When the certificate that a service shows its clients expires; null without one.';
comment on column ledger.process.drains is 'Whether it drains and stops when somebody asks for it here, as by SIGTERM.';
comment on column ledger.process.drain_asked_at is 'When somebody asked it to drain and stop; its successor has a row of its own.';
comment on column ledger.process.draining_since is
  'Since when it takes no more work and ends what it has: because of that request, or of a signal.';
comment on column ledger.process.ticked_at is
  'When the last pass of its loop ended: of an allocator, a reconciler or a relay; null of others, and before the first.';
comment on column ledger.process.tick_seconds is 'How long that pass took.';
comment on column ledger.process.outbox_items is
  'Of a relay: rows of its outbox that were not carried yet when it last counted them, at most 10,000.';
comment on column ledger.process.sleeps_until is
  'It claims nothing before this business time unless it is notified that an item is available earlier; null while it is awake.';
comment on column ledger.process.locked_on is
  'Start time of the server on which it has its lock (see process_status); null where it has none, as behind a pooler.';
