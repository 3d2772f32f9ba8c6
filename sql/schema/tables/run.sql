create table ledger.run (
  run_no bigint generated always as identity,
  started_at timestamptz not null,
  fence bigint not null,
  claimed_at timestamptz not null,
  from_position integer not null,
  to_position integer not null,
  worker_no bigint not null,
  lease_until timestamptz not null,
  lease_seconds double precision not null,
  ended bit varying not null,
  closed_at timestamptz,
  flow_no integer,
  run_until timestamptz,
  extended_at timestamptz,
  overran bit varying,
  withdrawn bit varying,
  isolated_in text constraint run_isolation_known check (isolated_in in ('process', 'slot')),
  primary key (run_no, started_at),
  constraint run_positions_ordered check (from_position between 1 and to_position),
  constraint run_bits_agree check (bit_length(ended) = to_position - from_position + 1)
) partition by range (started_at);

comment on table ledger.run is
  'Runs: one row for each started part of a claim, under the lease of one worker. Partitioned by month; closed runs are kept.';
comment on column ledger.run.fence is 'The claim.';
comment on column ledger.run.claimed_at is 'When the claim was made: its table partition.';
comment on column ledger.run.worker_no is 'Actor number of the worker, or of the consumers of the topic.';
comment on column ledger.run.ended is 'A bit for each position: set once its item has ended.';
comment on column ledger.run.closed_at is
  'When all items had ended or the run was reaped; null while the run is open.';
comment on column ledger.run.flow_no is 'Set where all items are of one flow whose items in flight are counted.';
comment on column ledger.run.run_until is 'Latest end of the run; no heartbeat extends the lease beyond it.';
comment on column ledger.run.extended_at is
  'When the lease was last extended; where the run is settled by topic, every reported outcome extends it.';
comment on column ledger.run.overran is
  'A bit for each position, reported by the worker at the hard end: set if its handler had the item then.';
comment on column ledger.run.withdrawn is
  'A bit for each position: set if the start of the run ended its item, as was requested while it was handed out. Null: none.';
comment on column ledger.run.isolated_in is
  'Set for suspects: in a process of their own, which dies instead of the worker, or in the slot that a worker has for one.';

create index run_lease_idx on ledger.run (lease_until) where closed_at is null;
create index run_fence_idx on ledger.run (fence);
create index run_flow_idx on ledger.run (flow_no) where closed_at is null and flow_no is not null;
