-- Items that must not run beside each other: of one partition key in order, or of one overlap key.
-- Nothing is released yet, so no ledger with data waits for these locks.
-- squawk-ignore-file require-concurrent-index-creation, require-concurrent-index-deletion, constraint-missing-not-valid, ban-drop-function, adding-field-with-default, prefer-text-field
-- `serial` is a hash of kind and key; two keys that collide merely wait for each other.
-- Overlap: 1 wait in order, 2 skip, 3 keep one waiting and skip the rest, 4 cancel the one that runs.

alter table ledger.due_item
  add column serial bigint,
  add column overlap smallint;

alter table ledger.pending
  add column serial bigint,
  add column serial_due_at timestamptz,
  add column overlap smallint,
  add constraint pending_serial_whole check (
    (serial is null) = (serial_due_at is null) and (serial is null) = (overlap is null)),
  add constraint pending_overlap_known check (overlap between 1 and 4);

-- First attempts, retries and serial items are found apart, so that none of them hides another.
drop index ledger.pending_available_idx;
create index pending_available_idx on ledger.pending (flow_no, available_at)
  where state = 1 /* Scheduled */ and serial is null;
create index pending_retry_idx on ledger.pending (flow_no, available_at)
  where state = 4 /* RetryableFailure */ and serial is null;
create index pending_serial_idx on ledger.pending (flow_no, available_at) where serial is not null;
create index pending_key_idx on ledger.pending (serial, serial_due_at, item_no) where serial is not null;
-- What waits behind a held key has no time of its own: the settlement that frees the key wakes the next.
create index pending_blocked_idx on ledger.pending (serial, serial_due_at, item_no)
  where serial is not null and available_at = 'infinity';

-- Who holds a key: from its claim until it ends, and between attempts where failures hold.
create table ledger.held_key (
  serial bigint primary key,
  item_no bigint not null unique,
  effective_date date not null,
  flow_no integer not null,
  held_at timestamptz not null
);

create function ledger.serial_of(kind_no integer, key text) returns bigint
  language sql immutable parallel safe
  return hashtextextended(key, kind_no);

-- Fixed delay: the item after which the next one is owed. Deleting the row, in the transaction that ends
-- the item, emits the next.
create table ledger.following (
  item_no bigint primary key,
  effective_date date not null,
  definition_no bigint not null,
  delay_seconds double precision not null,
  constraint following_delay_positive check (delay_seconds > 0)
);

create index following_definition_idx on ledger.following (definition_no);

grant select on ledger.held_key, ledger.following to ledger_worker, ledger_auditor;
grant insert, update, delete on ledger.held_key, ledger.following to ledger_worker;
