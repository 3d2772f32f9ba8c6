-- The reconciler: compares, records findings, and executes repairs.
select ledger.make_role('ledger_reconciler');

grant usage on schema ledger to ledger_reconciler;
grant select on ledger.actor, ledger.calendar, ledger.calendar_use, ledger.cell, ledger.definition,
  ledger.due_item, ledger.due_item_default, ledger.event, ledger.event_key, ledger.event_other_key,
  ledger.expedited, ledger.failure_streak, ledger.finding, ledger.flow, ledger.following, ledger.held_key,
  ledger.kind, ledger.materialised, ledger.missed_range, ledger.open_item, ledger.partition_backoff,
  ledger.partition_span, ledger.past_load_count, ledger.pause, ledger.pending, ledger.population, ledger.process, ledger.process_status,
  ledger.reconciliation, ledger.rejected_write, ledger.repair, ledger.retired_key, ledger.review, ledger.run, ledger.seal,
  ledger.transition, ledger.triggered, ledger.watermark, ledger.withdrawal, ledger.witnessed to
  ledger_reconciler;
grant select (attempt, base_offset, batch_max, claimed_at, closed_at, deadline, effective_date, fence,
  item_no, partition, published_at, queue_seconds, size, started, starts, topic, topic_actor_no) on ledger.claim to ledger_reconciler;
grant insert on ledger.failure_streak, ledger.flow_outcome, ledger.partition_backoff, ledger.past_load_count, ledger.pending,
  ledger.population, ledger.process, ledger.reconciliation, ledger.rejected_write, ledger.repair,
  ledger.report, ledger.report_row, ledger.review, ledger.silent_topic, ledger.transition, ledger.watermark, ledger.withdrawal, ledger.witnessed
  to ledger_reconciler;
grant update (closed_at) on ledger.claim to ledger_reconciler;
grant update (failures, last_at, reason) on ledger.failure_streak to ledger_reconciler;
grant update (closed_at, reason, resolution, taken_at, taken_by) on ledger.finding to ledger_reconciler;
grant update (available_at, expirations) on ledger.partition_backoff to ledger_reconciler;
grant update (as_of, counted_from) on ledger.past_load_count to ledger_reconciler;
grant update (batch_max) on ledger.pending to ledger_reconciler;  -- to lock rows
grant update (does_upkeep, draining_since, drains, ended_at, failed_service, failing_since, failure, kind_tenants, kinds, locked_on,
  outbox_items, seen_at, sleeps_until, tick_seconds, ticked_at, unavailable_topics, unlocked_at, yields) on ledger.process to ledger_reconciler;
grant update (counts, finished_at, witness_credit_seconds) on ledger.reconciliation to ledger_reconciler;
grant update (command, executed_at, executed_by, held_because, judged_at, outcome, status) on ledger.repair to ledger_reconciler;
grant update (reason) on ledger.review to ledger_reconciler;  -- to lock rows
grant update (closed_at) on ledger.run to ledger_reconciler;
grant update (as_of, blocked_by, complete_before) on ledger.watermark to ledger_reconciler;
grant update (agreement, asked_at, package, reason, times) on ledger.witnessed to ledger_reconciler;
grant delete on ledger.held_key, ledger.pending, ledger.review, ledger.withdrawal to ledger_reconciler;
grant execute on function ledger.announce_sleep, ledger.emit_items, ledger.forget_past_load, ledger.has_token, ledger.lock_partitions, ledger.record_findings,
  ledger.record_past_load, ledger.register_actor, ledger.try_lock_rows, ledger.wake_sleepers to ledger_reconciler;
