-- Who may do what. Workers write the journal, never the schema; auditors read everything.

grant usage on schema ledger to ledger_emitter, ledger_worker, ledger_auditor, ledger_simulator;
grant select on all tables in schema ledger to ledger_worker, ledger_auditor;

grant insert, update, delete on
  ledger.pending, ledger.claim, ledger.run, ledger.review, ledger.withdrawal, ledger.materialised, ledger.event,
  ledger.flow, ledger.kind, ledger.pause, ledger.flow_outcome, ledger.credit, ledger.silent_topic, ledger.held_key,
  ledger.following
  to ledger_worker;
grant insert, update on
  ledger.failure_streak, ledger.missed_range, ledger.tz_change_version,
  ledger.reconciliation, ledger.population, ledger.finding, ledger.repair, ledger.watermark
  to ledger_worker;
grant insert on
  ledger.transition, ledger.rejected_write, ledger.definition, ledger.calendar, ledger.calendar_use, ledger.expedited,
  ledger.triggered, ledger.flow_change, ledger.tz_change
  to ledger_worker;
grant update (checked_at) on ledger.partition_span to ledger_worker;
grant usage on sequence ledger.fence to ledger_worker;
-- Direct mode: one statement claims and starts, so the worker numbers its runs itself.
grant usage on sequence ledger.run_run_no_seq to ledger_worker;

-- These change the ledger or wait for others, so only those who need them may call them.
revoke execute on function
  ledger.register_actor, ledger.ensure_flows, ledger.emit, ledger.emit_items, ledger.emit_follower, ledger.finish_items,
  ledger.revise_items, ledger.move_items, ledger.make_partition, ledger.lock_partitions,
  ledger.none_lost, ledger.record_outcomes, ledger.finish_month, ledger.lift_sequence, ledger.list_sequences
  from public;
grant execute on function ledger.emit to ledger_emitter;
grant execute on function
  ledger.register_actor, ledger.ensure_flows, ledger.emit_items, ledger.revise_items, ledger.move_items,
  ledger.make_partition, ledger.lock_partitions, ledger.none_lost,
  ledger.record_outcomes, ledger.finish_month, ledger.lift_sequence
  to ledger_worker;

-- `dueledger doctor` asks whether the schema is up to date, and whether a sequence nears its end.
grant execute on function ledger.list_sequences to ledger_worker, ledger_auditor;
grant usage on schema ledger_migration to ledger_worker, ledger_auditor;
grant select on ledger_migration.applied to ledger_worker, ledger_auditor;
