-- Small tables that change with every batch are vacuumed like the large hot ones, or a few thousand dead rows
-- cost every settlement a walk; streaks are judged by a sweep, so that a failure costs no look into its key's past.
-- Nothing is released yet, so no ledger with data waits for these locks.
-- squawk-ignore-file require-concurrent-index-creation, require-concurrent-index-deletion

alter table ledger.held_key set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000);
alter table ledger.following set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000);
alter table ledger.withdrawal set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000);
alter table ledger.flow_outcome set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000);
alter table ledger.credit set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
alter table ledger.flow set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
alter table ledger.failure_streak set (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);

-- Up to when a streak was judged; what failed since is judged again.
alter table ledger.failure_streak add column judged_at timestamptz;
drop index ledger.failure_streak_unflagged_idx;
create index failure_streak_unjudged_idx on ledger.failure_streak (failures)
  where judged_at is null or last_at > judged_at;
