create table ledger.leader (
  task text primary key,
  holder text not null,
  held_until timestamptz not null,
  term bigint not null default 1
) with (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

comment on table ledger.leader is
  'Tasks that one process does at a time, by a lease. Two may do one for a moment, so that it must be harmless to do it twice, or '
  'each write name the term.';
comment on column ledger.leader.holder is 'The process, by a name of its own.';
comment on column ledger.leader.held_until is 'Until then no other process takes the task; by the machine clock.';
comment on column ledger.leader.term is 'Grows each time that another process takes the task.';
