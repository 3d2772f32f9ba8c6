create table ledger.overview (
  flow_no integer not null,
  quarter timestamptz not null,
  completed integer not null default 0,
  completed_late integer not null default 0,
  completed_in_flight integer not null default 0,
  in_flight integer not null default 0,
  waiting integer not null default 0,
  blocked integer not null default 0,
  failed integer not null default 0,
  is_capped boolean not null default false,
  primary key (flow_no, quarter)
) with (
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0
);

comment on table ledger.overview is
  'What of each flow was and is due in each quarter hour of the last and the next 24 hours, as it was counted last. Kept while a '
  'page of the console is open: its refreshes count it again, each a part.';
comment on column ledger.overview.quarter is 'Begin of the quarter hour, in UTC.';
comment on column ledger.overview.completed is 'Items due in it that runs completed which are closed.';
comment on column ledger.overview.completed_late is 'Those of them that were completed after their SLA.';
comment on column ledger.overview.completed_in_flight is 'Items due in it that runs completed which are open.';
comment on column ledger.overview.in_flight is 'Items due in it that are handed out or running.';
comment on column ledger.overview.waiting is 'Items that may be claimed from that quarter hour on.';
comment on column ledger.overview.blocked is 'Items due in it that wait for another one of their key.';
comment on column ledger.overview.failed is 'Items due in it that wait for a retry, or for a person.';
comment on column ledger.overview.is_capped is 'Whether more wait than are counted.';

create index overview_in_flight_idx on ledger.overview (flow_no, quarter) where in_flight > 0 or completed_in_flight > 0;

create table ledger.overview_flow (
  flow_no integer primary key,
  counted_at timestamptz not null default 'epoch',
  counted_to timestamptz,
  far_counted_at timestamptz not null default 'epoch',
  far_counted_to timestamptz,
  late integer not null default 0,
  failed integer not null default 0,
  items integer not null default 0,
  rate_per_second double precision not null default 0,
  rated_at timestamptz not null default 'epoch'
) with (
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0
);

comment on table ledger.overview_flow is 'When the waiting items of each flow were counted for the overview, and the sums of its cells.';
comment on column ledger.overview_flow.counted_at is
  'When those of the last day and the next hour were counted last; by the machine clock.';
comment on column ledger.overview_flow.counted_to is
  'Quarter hour at which the count goes on; null: it begins anew, at the first one.';
comment on column ledger.overview_flow.far_counted_at is 'When those of the hours after it were.';
comment on column ledger.overview_flow.far_counted_to is 'As counted_to, of these.';
comment on column ledger.overview_flow.late is 'Items that have not ended, of quarter hours whose grace is over.';
comment on column ledger.overview_flow.items is 'All items of its cells.';
comment on column ledger.overview_flow.rate_per_second is 'Items that ended a second, when it was measured and there were some.';
comment on column ledger.overview_flow.rated_at is 'When that was; before rated_at of the reader: none ended since.';

create index overview_flow_age_idx on ledger.overview_flow (counted_at, flow_no);
create index overview_flow_far_age_idx on ledger.overview_flow (far_counted_at, flow_no);
create index overview_flow_worst_idx on ledger.overview_flow (late desc, failed desc, items desc, flow_no) where items > 0;

create table ledger.overview_reader (
  one boolean primary key default true,
  read_at timestamptz not null,
  read_to_run bigint not null,
  read_from_run bigint not null,
  read_from timestamptz not null,
  is_cut boolean not null default false,
  rated_at timestamptz,
  rated_from timestamptz not null default ledger.now(),
  rated_from_run bigint not null default 0,
  minutes_from timestamptz,
  minutes_to timestamptz,
  minutes_to_run bigint not null default 0,
  constraint overview_reader_is_one check (one)
);

comment on table ledger.overview_reader is
  'Up to where the overview has read runs, in one row: those between both numbers are read, or in overview_run.';
comment on column ledger.overview_reader.read_at is 'When it last read runs.';
comment on column ledger.overview_reader.read_from is 'Runs started from then on are read.';
comment on column ledger.overview_reader.rated_at is 'When rates of flows were measured; by the machine clock.';
comment on column ledger.overview_reader.rated_from is 'Rates are of the time since then, at most five minutes.';
comment on column ledger.overview_reader.rated_from_run is 'Runs with a lower number do not count for them.';
comment on column ledger.overview_reader.minutes_from is 'From when on the minutes are counted.';
comment on column ledger.overview_reader.minutes_to is 'Up to when the minutes are counted; null: they never were.';
comment on column ledger.overview_reader.minutes_to_run is
  'Runs up to this number are counted, each by a sample if they are many, or in overview_minute_run.';
comment on column ledger.overview_reader.is_cut is 'Whether more items are in flight than are counted.';

create table ledger.overview_run (
  run_no bigint primary key,
  started_at timestamptz not null,
  checked_at timestamptz not null
);

comment on table ledger.overview_run is 'Runs that were open when the overview came to them: they are read once they are closed.';

create index overview_run_checked_idx on ledger.overview_run (checked_at);

create table ledger.overview_minute (
  tenant text not null,
  minute timestamptz not null,
  bucket smallint not null,
  items double precision not null,
  sampled integer not null,
  primary key (minute, tenant, bucket)
) with (
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0
);

comment on table ledger.overview_minute is
  'What runs completed in each minute of the last hour, by how long after it was due. Counted as the overview is.';
comment on column ledger.overview_minute.tenant is 'Empty: all tenants.';
comment on column ledger.overview_minute.bucket is 'Completed within 2 ^ (bucket / 8) ms after it was due, and in none before; 0: within one.';
comment on column ledger.overview_minute.items is 'Items; where runs were sampled, an estimate.';
comment on column ledger.overview_minute.sampled is 'Items that were looked at.';

create table ledger.overview_minute_run (
  run_no bigint primary key,
  started_at timestamptz not null,
  ended bit varying not null,
  weight double precision not null,
  checked_at timestamptz not null
);

comment on table ledger.overview_minute_run is 'Runs that were open when their minutes were counted: what they end later is counted then.';
comment on column ledger.overview_minute_run.ended is 'Those of its items that are counted.';
comment on column ledger.overview_minute_run.weight is 'How many runs are counted by this one.';

create index overview_minute_run_checked_idx on ledger.overview_minute_run (checked_at);
