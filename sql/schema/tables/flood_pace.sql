create table ledger.flood_pace (
  one_row boolean primary key default true,
  share double precision not null default 1,
  stepped_at timestamptz,
  counted_from timestamptz,
  slowed_at timestamptz,
  flow_no integer,
  lag_seconds double precision,
  lag_target_seconds double precision,
  constraint flood_pace_only_one check (one_row),
  constraint flood_pace_share_range check (share between 0.01 and 1)
) with (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

comment on table ledger.flood_pace is
  'The pace of floods while flows with a lag target have items, in one row: a process that claims floods steps it, one at a time.';
comment on column ledger.flood_pace.share is 'Share of the time in which floods are claimed.';
comment on column ledger.flood_pace.stepped_at is
  'When it was last stepped, by the machine clock: the fence of the next step. One that is old is not in force.';
comment on column ledger.flood_pace.counted_from is
  'When the share last fell, by the business clock: claims of items that were available before do not count.';
comment on column ledger.flood_pace.slowed_at is 'Since when the share is below 1.';
comment on column ledger.flood_pace.flow_no is 'The flow whose claims were late when the share last fell.';
comment on column ledger.flood_pace.lag_seconds is 'The longest lag of its claims then.';
comment on column ledger.flood_pace.lag_target_seconds is 'Its lag target then.';

insert into ledger.flood_pace default values;
