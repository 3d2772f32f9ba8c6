create sequence ledger.fence;

comment on sequence ledger.fence is 'Fences: they only grow, and none is given twice.';

create table ledger.claim (
  fence bigint not null,
  claimed_at timestamptz not null,
  allocator_no bigint not null,
  topic text not null,
  partition integer not null,
  size integer not null,
  -- Written once, read when the runs settle; compressing the arrays is a tenth of what a direct claim costs.
  item_no bigint[] storage external not null,
  effective_date date[] storage external not null,
  attempt smallint[] storage external not null,
  starts smallint[] storage external not null,
  batch_max smallint,
  published_at timestamptz,
  base_offset bigint,
  started integer not null default 0,
  deadline timestamptz not null,
  closed_at timestamptz,
  token text,
  flow_no integer,
  topic_actor_no bigint,
  lease_seconds double precision,
  queue_seconds double precision,
  run_seconds double precision,
  flow_nos integer[],
  lag_flow_no integer,
  available_since timestamptz,
  primary key (fence, claimed_at),
  constraint claim_arrays_agree check (
    size > 0 and cardinality(item_no) = size and cardinality(effective_date) = size
    and cardinality(attempt) = size and cardinality(starts) = size
  ),
  -- A direct claim that its worker starts as it makes it is named by nobody.
  constraint claim_token_given check (coalesce(length(token), 0) = 16 or (partition < 0 and started = size)),
  constraint claim_started_range check (started between 0 and size)
) partition by range (claimed_at);

comment on table ledger.claim is
  'Claims: one row a batch of items handed out under one fence. Partitioned by month; closed claims are kept.';
comment on column ledger.claim.allocator_no is 'Actor number of the allocator, of the worker in direct mode, or of the key of a pull worker.';
comment on column ledger.claim.partition is 'Partition of the Kafka topic.';
comment on column ledger.claim.size is 'Number of items.';
comment on column ledger.claim.item_no is
  'The items by position, in the order published: the offset of a record is base_offset + position - 1.';
comment on column ledger.claim.attempt is 'By position: the attempt that the claim is for.';
comment on column ledger.claim.starts is 'By position: the start that the claim is for.';
comment on column ledger.claim.batch_max is
  'For suspects: in runs of how many items at most they are started; else null.';
comment on column ledger.claim.published_at is 'When the acknowledgement by Kafka was marked.';
comment on column ledger.claim.base_offset is 'Offset of the first record.';
comment on column ledger.claim.started is 'Positions up to this one are started.';
comment on column ledger.claim.deadline is 'When the claim is closed and its items not started are released.';
comment on column ledger.claim.token is
  '64 random bits in hex: its records carry them, and each start and each reported outcome repeats them. They are '
  'enough to end its items. A pull worker repeats it, too. Null where a direct worker started the claim as it made it.';
comment on column ledger.claim.flow_no is 'Set where all items are of one flow whose items in flight are counted.';
comment on column ledger.claim.topic_actor_no is
  'Set where the claim is settled by topic: the actor number of its consumers.';
comment on column ledger.claim.lease_seconds is 'Lease of the run, where the claim is settled by topic.';
comment on column ledger.claim.queue_seconds is 'Time from published_at to the deadline.';
comment on column ledger.claim.run_seconds is 'Longest time of a run, as the kind had it.';
comment on column ledger.claim.flow_nos is
  'The flows of its items, so that lists of a tenant look into its own claims alone. Null where they were not recorded.';
comment on column ledger.claim.lag_flow_no is
  'The flow with a lag target of which an item of this claim is the first to be late. Null where no flow has one.';
comment on column ledger.claim.available_since is 'Since when that item could be claimed.';

create index claim_deadline_idx on ledger.claim (deadline) where closed_at is null;
create index claim_flow_idx on ledger.claim (flow_no) where closed_at is null and flow_no is not null;
create index claim_lag_idx on ledger.claim (claimed_at) where lag_flow_no is not null;
