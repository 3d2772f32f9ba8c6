-- Upkeep, of allocators and direct workers: reaps, releases keys, makes table partitions.
select ledger.make_role('ledger_upkeep');

grant usage on schema ledger to ledger_upkeep;
grant select on ledger.api_answer, ledger.audit, ledger.console_session, ledger.credit, ledger.due_item, ledger.due_item_default, ledger.event_key, ledger.expedited,
  ledger.failure_streak, ledger.flow, ledger.flow_outcome, ledger.following, ledger.held_key, ledger.kind,
  ledger.open_item, ledger.operation, ledger.operation_state, ledger.partition_backoff, ledger.partition_span, ledger.pause, ledger.pending,
  ledger.population, ledger.process, ledger.process_status, ledger.reconciliation, ledger.rejected_write, ledger.report, ledger.report_row, ledger.review, ledger.run, ledger.stalled_partition, ledger.transition, ledger.withdrawal to
  ledger_upkeep;
grant select (allocator_no, attempt, batch_max, claimed_at, closed_at, deadline, effective_date, fence, flow_nos, item_no,
  partition, published_at, started, starts, topic, topic_actor_no) on ledger.claim to ledger_upkeep;
grant insert on ledger.expedited, ledger.failure_streak, ledger.flow_outcome, ledger.partition_backoff, ledger.pending,
  ledger.rejected_write, ledger.review, ledger.silent_topic, ledger.transition, ledger.withdrawal
  to ledger_upkeep;
grant update (status) on ledger.api_answer to ledger_upkeep;  -- to lock rows
grant update (closed_at, deadline) on ledger.claim to ledger_upkeep;
grant update (expires_at) on ledger.console_session to ledger_upkeep;  -- to lock rows
grant update (received_at) on ledger.event_key to ledger_upkeep;  -- to lock rows
grant update (failures, first_at, flagged_at, judged_at, last_at, reason) on ledger.failure_streak to ledger_upkeep;
grant update (circuit, circuit_at, circuit_run_no, pause_reason, paused_at, paused_by) on ledger.flow
  to ledger_upkeep;
grant update (advanced_at, done, ended_at, reached_item_no, requested, stepped_at, worked_seconds) on ledger.operation to ledger_upkeep;
grant update (available_at, expirations) on ledger.partition_backoff to ledger_upkeep;
grant update (checked_at) on ledger.partition_span to ledger_upkeep;
grant update (resumed_at) on ledger.pause to ledger_upkeep;
grant update (available_at, overlap, snoozed_until, state) on ledger.pending to ledger_upkeep;
grant update (unlocked_at) on ledger.process to ledger_upkeep;
grant update (reason) on ledger.review to ledger_upkeep;  -- to lock rows
grant update (closed_at, lease_until) on ledger.run to ledger_upkeep;
grant update (reason) on ledger.withdrawal to ledger_upkeep;  -- to lock rows
grant delete on ledger.api_answer, ledger.audit, ledger.console_session, ledger.credit, ledger.event_key, ledger.flow_outcome, ledger.held_key,
  ledger.partition_backoff, ledger.pending, ledger.population, ledger.process, ledger.reconciliation, ledger.rejected_write, ledger.report, ledger.report_row, ledger.review, ledger.stalled_partition,
  ledger.withdrawal to ledger_upkeep;
grant execute on function ledger.finish_month, ledger.lock_partitions, ledger.make_partition, ledger.measure_gauges,
  ledger.take_lead, ledger.try_lock_rows, ledger.wake_sleepers to ledger_upkeep;
