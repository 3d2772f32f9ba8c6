-- The states, the events and the only permitted moves. ledger/states.py declares them; a test holds both together.

create table ledger.state (
  state smallint primary key,
  name text not null unique,
  terminal boolean not null
);

insert into ledger.state (state, name, terminal) values
  (1, 'Scheduled', false),
  (2, 'Claimed', false),
  (3, 'Running', false),
  (4, 'RetryableFailure', false),
  (5, 'ManualReview', false),
  (6, 'Completed', true),
  (7, 'Cancelled', true),
  (8, 'Superseded', true),
  (9, 'Skipped', true),
  (10, 'WrittenOff', true);

create table ledger.transition_event (
  event smallint primary key,
  name text not null unique,
  after_state smallint not null references ledger.state
);

insert into ledger.transition_event (event, name, after_state) values
  (1, 'emitted', 1),
  (2, 'claimed', 2),
  (3, 'released', 1),
  (4, 'started', 3),
  (5, 'completed', 6),
  (6, 'failed', 4),
  (7, 'timed_out', 4),
  (8, 'snoozed', 1),
  (9, 'parked', 5),
  (10, 'redriven', 1),
  (11, 'cancelled', 7),
  (12, 'superseded', 8),
  (13, 'skipped', 9),
  (14, 'written_off', 10);

create table ledger.permitted_transition (
  event smallint not null references ledger.transition_event,
  before_state smallint references ledger.state,
  unique nulls not distinct (event, before_state)
);

insert into ledger.permitted_transition (event, before_state) values
  (1, null),
  (2, 1), (2, 4),
  (3, 2),
  (4, 2),
  (5, 3), (5, 2),
  (6, 3),
  (7, 3),
  (8, 3),
  (9, 3), (9, 2), (9, 4),
  (10, 5),
  (11, 1), (11, 4), (11, 5), (11, 2), (11, 3),
  (12, 1), (12, 4), (12, 5), (12, 2), (12, 3),
  (13, null), (13, 1),
  (14, 5);

-- Who does things: processes by their incarnation, people by name.
create table ledger.actor (
  actor_no integer generated always as identity primary key,
  name text not null unique,
  kind text not null,
  seen_at timestamptz not null default statement_timestamp(),
  constraint actor_kind_known check (
    kind in ('allocator', 'worker', 'materialiser', 'intake', 'reconciler', 'person', 'service')
  )
);
