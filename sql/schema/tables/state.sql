-- The states, the events and the only permitted transitions. ledger/states.py declares them; a test compares both.

create table ledger.state (
  state smallint primary key,
  name text not null unique,
  terminal boolean not null
);

comment on table ledger.state is 'States of an item.';
comment on column ledger.state.terminal is 'Whether no transition leads out of the state.';

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

comment on table ledger.transition_event is 'Events that change the state of an item.';
comment on column ledger.transition_event.after_state is 'State of the item after the event.';

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
  (14, 'written_off', 10),
  (15, 'revised', 1),
  (16, 'recovered', 1);

create table ledger.permitted_transition (
  event smallint not null references ledger.transition_event,
  before_state smallint references ledger.state,
  unique nulls not distinct (event, before_state)
);

comment on table ledger.permitted_transition is 'States in which each event may happen.';
comment on column ledger.permitted_transition.before_state is
  'State of the item before the event; null where the item is in no state yet, or was lost.';

insert into ledger.permitted_transition (event, before_state) values
  (1, null),
  (2, 1), (2, 4),
  (3, 2), (3, 3),
  (4, 2),
  (5, 3), (5, 2), (5, 1), (5, 4), (5, 5),
  (6, 3),
  (7, 3),
  (8, 3), (8, 1), (8, 4),
  (9, 3), (9, 2), (9, 4),
  (10, 5),
  (11, 1), (11, 4), (11, 5), (11, 2), (11, 3),
  (12, 1), (12, 4), (12, 5), (12, 2), (12, 3),
  (13, null), (13, 1),
  (14, 5),
  (15, 1),
  (16, null);
