create table ledger.flow (
  flow_no integer generated always as identity primary key,
  kind_no integer not null,
  tenant text not null,
  kind text not null,
  ordering text not null,
  lane text not null default '',
  weight integer not null default 1,
  rate_per_second double precision,
  concurrency_max integer,
  window_items integer,
  paused_at timestamptz,
  paused_by bigint references ledger.actor,
  pause_reason text,
  retry_share double precision not null default 0.2,
  tokens double precision,
  tokens_at timestamptz,
  circuit_failure_ratio double precision,
  circuit_calls_min integer not null default 20,
  circuit_window_seconds double precision not null default 60,
  circuit_rest_seconds double precision not null default 30,
  circuit text not null default 'closed',
  circuit_at timestamptz,
  limited boolean not null generated always as (
    rate_per_second is not null or concurrency_max is not null or window_items is not null
    or circuit_failure_ratio is not null
  ) stored,
  circuit_run_no bigint,
  lag_target_seconds double precision,
  unique (tenant, kind, lane),
  foreign key (kind_no, tenant, kind, ordering) references ledger.kind (kind_no, tenant, name, ordering) on update cascade,
  -- A rate of 5e-324 or a window of 1e15 seconds breaks the statements that measure all flows at once, so every limit
  -- has bounds. ledger/flow_bounds.py has the same; a test compares both.
  constraint flow_lane_length check (char_length(lane) <= 100),
  constraint flow_weight_range check (weight between 1 and 1000000),
  constraint flow_rate_per_second_range check (rate_per_second between 3e-8 and 1e9),
  constraint flow_concurrency_max_range check (concurrency_max between 1 and 1000000000),
  constraint flow_window_items_range check (window_items between 1 and 1000000000),
  constraint flow_retry_share_range check (retry_share between 0 and 1),
  constraint flow_tokens_range check (tokens between -1e12 and 1e12),
  constraint flow_circuit_failure_ratio_range check (circuit_failure_ratio between 1e-6 and 1),
  constraint flow_circuit_calls_min_range check (circuit_calls_min between 1 and 1000000),
  constraint flow_circuit_window_seconds_range check (circuit_window_seconds between 0.001 and 604800),
  constraint flow_circuit_rest_seconds_range check (circuit_rest_seconds between 0.001 and 604800),
  constraint flow_lag_target_seconds_range check (lag_target_seconds between 0.001 and 604800),
  constraint flow_circuit_known check (circuit in ('closed', 'open', 'half_open')),
  constraint flow_pause_named check ((paused_at is null) = (paused_by is null))
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

comment on table ledger.flow is
  'Items of one tenant, kind and lane: limits, pause and circuit apply to them together.';
comment on column ledger.flow.ordering is
  'As in kind, with its tenant and name: an emission looks up one table. A change of the kind changes it here.';
comment on column ledger.flow.lane is 'Named part of the kind, as a region; empty where there is none.';
comment on column ledger.flow.weight is 'Share of the flow against the others.';
comment on column ledger.flow.rate_per_second is 'Rate limit in items; the token bucket holds one second of it.';
comment on column ledger.flow.concurrency_max is 'Limit of claimed and running items at once.';
comment on column ledger.flow.window_items is 'Limit of claimed items that are not started.';
comment on column ledger.flow.paused_at is 'Since when the flow is paused; nothing of it is claimed.';
comment on column ledger.flow.retry_share is 'Part of each claim that is kept for retries.';
comment on column ledger.flow.tokens is
  'Tokens in the bucket at tokens_at; negative after more was claimed than it held.';
comment on column ledger.flow.circuit_failure_ratio is
  'Share of failures at which the circuit opens; null: there is no circuit.';
comment on column ledger.flow.circuit_calls_min is
  'Outcomes within the window below which the circuit stays as it is.';
comment on column ledger.flow.circuit_window_seconds is 'Time over which outcomes are counted for the circuit.';
comment on column ledger.flow.circuit_rest_seconds is 'Time from opening the circuit until a probe is claimed.';
comment on column ledger.flow.circuit_at is 'When the circuit last changed.';
comment on column ledger.flow.limited is
  'Whether the flow has any limit. Where more than its rate is limited, its items in flight are counted: they are then in '
  'claims of this flow alone.';
comment on column ledger.flow.circuit_run_no is
  'First run number that counts for the circuit: only runs started after its last change do. '
  'Run numbers keep their order where a clock is set back.';
comment on column ledger.flow.lag_target_seconds is
  'While its items start later than this after they could be claimed, floods of other flows are claimed more slowly.';

create table ledger.flow_change (
  flow_no integer not null,
  changed_at timestamptz not null,
  actor_no bigint not null references ledger.actor,
  change jsonb not null
);

comment on table ledger.flow_change is 'Changes of the limits of flows: by whom, when and to what. Append only.';

create index flow_change_idx on ledger.flow_change (flow_no, changed_at);

create table ledger.flow_outcome (
  flow_no integer not null,
  at timestamptz not null,
  completed integer not null,
  failed integer not null,
  run_no bigint not null default 0
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000
);

comment on table ledger.flow_outcome is
  'Outcomes of flows with a circuit, counted per settlement. The allocators read them and delete the old ones.';
comment on column ledger.flow_outcome.at is 'Time of the settlement, on machine time.';
comment on column ledger.flow_outcome.run_no is
  'Lowest number of the runs counted together; 0 where there was none, and the row then counts for no circuit.';

create index flow_outcome_idx on ledger.flow_outcome (flow_no, at);

create table ledger.failure_streak (
  flow_no integer not null,
  business_key text not null,
  failures integer not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  reason text,
  flagged_at timestamptz,
  judged_at timestamptz,
  primary key (flow_no, business_key)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);

comment on table ledger.failure_streak is
  'Failures in a row of one business key, over attempts and cycles. A completion ends the streak.';
comment on column ledger.failure_streak.reason is 'Reason of the latest failure.';
comment on column ledger.failure_streak.flagged_at is 'When the streak reached streak_max of its kind.';
comment on column ledger.failure_streak.judged_at is
  'Up to when the streak was judged; later failures are judged again.';

create index failure_streak_unjudged_idx on ledger.failure_streak (failures)
  where judged_at is null or last_at > judged_at;
