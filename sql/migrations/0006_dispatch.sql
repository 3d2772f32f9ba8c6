-- What waits, who was handed what, who runs which stretch of it, and what a person must look at.

create table ledger.pending (
  item_no bigint primary key,
  effective_date date not null,
  flow_no integer not null,
  available_at timestamptz not null,
  state smallint not null default 1 /* Scheduled */,
  attempt smallint not null default 0,
  starts smallint not null default 0,
  batch_max smallint,
  constraint pending_state_waits check (state in (1 /* Scheduled */, 4 /* RetryableFailure */))
) with (
  fillfactor = 90,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000
);

create index pending_available_idx on ledger.pending (flow_no, available_at);

-- One number line for fences: they only grow and none is given twice.
create sequence ledger.fence;

-- One row a batch: the items in the order published, so that an item's offset is base_offset + position − 1.
create table ledger.claim (
  fence bigint not null,
  claimed_at timestamptz not null,
  allocator_no integer not null,
  topic text not null,
  partition integer not null,
  size integer not null,
  item_no bigint[] not null,
  effective_date date[] not null,
  attempt smallint[] not null,
  starts smallint[] not null,
  batch_max smallint,
  published_at timestamptz,
  base_offset bigint,
  started integer not null default 0,
  deadline timestamptz not null,
  closed_at timestamptz,
  primary key (fence, claimed_at),
  constraint claim_arrays_agree check (
    size > 0 and cardinality(item_no) = size and cardinality(effective_date) = size
    and cardinality(attempt) = size and cardinality(starts) = size
  ),
  constraint claim_started_range check (started between 0 and size)
) partition by range (claimed_at);

create index claim_deadline_idx on ledger.claim (deadline) where closed_at is null;

-- One row a run: a stretch of a claim under one worker's lease; `ended` has a bit a position.
create table ledger.run (
  run_no bigint generated always as identity,
  started_at timestamptz not null,
  fence bigint not null,
  from_position integer not null,
  to_position integer not null,
  worker_no integer not null,
  lease_until timestamptz not null,
  lease_seconds double precision not null,
  ended bit varying not null,
  closed_at timestamptz,
  primary key (run_no, started_at),
  constraint run_positions_ordered check (from_position between 1 and to_position),
  constraint run_bits_agree check (bit_length(ended) = to_position - from_position + 1)
) partition by range (started_at);

create index run_lease_idx on ledger.run (lease_until) where closed_at is null;
create index run_fence_idx on ledger.run (fence);

create table ledger.review (
  item_no bigint primary key,
  effective_date date not null,
  flow_no integer not null,
  parked_at timestamptz not null,
  attempt smallint not null,
  starts smallint not null,
  reason text not null,
  run_no bigint,
  actor_no integer not null
);

create index review_parked_idx on ledger.review (parked_at);

-- Cancelling or superseding what is in flight is a request; start honours it, and so does the sweep
-- that finds the item waiting again.
create table ledger.withdrawal (
  item_no bigint primary key,
  effective_date date not null,
  event smallint not null,
  reason text not null,
  replacement uuid,
  actor_no integer not null,
  requested_at timestamptz not null,
  constraint withdrawal_event_known check (event in (11 /* cancelled */, 12 /* superseded */))
);

-- What a stale or illegal write tried, and why it changed nothing.
create table ledger.rejected_write (
  rejected_no bigint generated always as identity primary key,
  rejected_at timestamptz not null,
  actor_no integer not null,
  verb text not null,
  reason text not null,
  fence bigint,
  run_no bigint,
  item_no bigint,
  from_position integer,
  to_position integer,
  detail jsonb
);

create index rejected_write_at_idx on ledger.rejected_write (rejected_at);
