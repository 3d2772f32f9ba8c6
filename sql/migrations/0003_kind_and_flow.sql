-- A kind names what is owed and how its work is handed out; a flow is one tenant × kind × lane.

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
  no_replay boolean not null default false,
  unique (tenant, name),
  constraint kind_tenant_shape check (tenant ~ '^[A-Za-z0-9._-]{1,100}$'),
  constraint kind_name_shape check (name ~ '^[A-Za-z0-9._-]{1,100}$'),
  constraint kind_seconds_positive check (
    queue_seconds > 0 and lease_seconds > 0 and backoff_base_seconds > 0
    and backoff_cap_seconds >= backoff_base_seconds and grace_seconds >= 0
  ),
  constraint kind_counts_positive check (attempt_max > 0 and start_max >= attempt_max)
);

create table ledger.flow (
  flow_no integer generated always as identity primary key,
  kind_no integer not null references ledger.kind,
  lane text not null default '',
  weight integer not null default 1,
  rate_per_second double precision,
  concurrency_max integer,
  window_items integer,
  paused_at timestamptz,
  paused_by integer references ledger.actor,
  pause_reason text,
  unique (kind_no, lane),
  constraint flow_lane_length check (char_length(lane) <= 100),
  constraint flow_weight_positive check (weight > 0),
  constraint flow_limits_positive check (rate_per_second > 0 and concurrency_max > 0 and window_items > 0),
  constraint flow_pause_named check ((paused_at is null) = (paused_by is null))
);
