create table ledger.withdrawal (
  item_no bigint primary key,
  effective_date date not null,
  event smallint not null,
  reason text not null,
  replacement uuid,
  actor_no bigint not null,
  requested_at timestamptz not null,
  constraint withdrawal_event_known check (event in (11 /* cancelled */, 12 /* superseded */))
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000
);

comment on table ledger.withdrawal is
  'Requests to cancel or supersede items in flight. Start applies them, and so does upkeep once the item waits again.';
comment on column ledger.withdrawal.replacement is 'Id of the item that takes its place.';
