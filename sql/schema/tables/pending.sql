create table ledger.pending (
  item_no bigint primary key,
  effective_date date not null,
  flow_no integer not null,
  available_at timestamptz not null,
  state smallint not null default 1 /* Scheduled */,
  attempt smallint not null default 0,
  starts smallint not null default 0,
  batch_max smallint,
  serial bigint,
  serial_due_at timestamptz,
  overlap smallint,
  snoozed_until timestamptz,
  constraint pending_valid check (ledger.pending_valid(state, serial, serial_due_at, overlap))
) with (
  fillfactor = 90,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000
);

comment on table ledger.pending is 'Items that wait to be claimed. A claim deletes the rows.';
comment on column ledger.pending.available_at is
  'From when the item may be claimed: due_at, or later after a retry, snooze or smear; infinity while it waits for its key.';
comment on column ledger.pending.attempt is 'Attempts counted so far.';
comment on column ledger.pending.starts is 'Starts so far, snoozes and lost workers included.';
comment on column ledger.pending.batch_max is
  'For a suspect: in runs of how many items at most it is started; else null.';
comment on column ledger.pending.serial is 'As in due_item.';
comment on column ledger.pending.serial_due_at is 'Order within the key: due_at of a serial item.';
comment on column ledger.pending.overlap is 'As in due_item.';
comment on column ledger.pending.snoozed_until is
  'Until when a person snoozed it, so that it may be due long before it is available; null: nobody did.';

-- First attempts, retries and serial items are found apart, so that none of them hides another.
-- The lower bound of a flow is remembered and the scan starts there. A thousand item numbers share one entry: a million
-- items due at one instant have different entries, and the key stays short.
create index pending_available_idx on ledger.pending (flow_no, available_at, (item_no >> 10))
  where state = 1 /* Scheduled */ and serial is null;
create index pending_retry_idx on ledger.pending (flow_no, available_at)
  where state = 4 /* RetryableFailure */ and serial is null;
create index pending_serial_idx on ledger.pending (flow_no, state, available_at) where serial is not null;
create index pending_snoozed_idx on ledger.pending (flow_no, available_at) where snoozed_until is not null;
create index pending_key_idx on ledger.pending (serial, serial_due_at, item_no) where serial is not null;
-- Items that wait for a held key have no time of their own: the settlement that releases the key wakes the next one.
create index pending_blocked_idx on ledger.pending (serial, serial_due_at, item_no)
  where serial is not null and available_at = 'infinity';

create table ledger.held_key (
  serial bigint primary key,
  item_no bigint not null unique,
  effective_date date not null,
  flow_no integer not null,
  held_at timestamptz not null
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000
);

comment on table ledger.held_key is
  'Held keys: which serial item has each, from its claim until it ends, and between attempts where failures hold.';

create table ledger.following (
  item_no bigint primary key,
  effective_date date not null,
  definition_no bigint not null,
  delay_seconds double precision not null,
  constraint following_delay_positive check (delay_seconds > 0)
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000
);

comment on table ledger.following is
  'Items of schedules with a fixed delay that are not ended. '
  'The transaction that ends one deletes its row, and a trigger emits the next item.';
comment on column ledger.following.delay_seconds is 'Time from the end of the item until the next one is due.';

create index following_definition_idx on ledger.following (definition_no);
