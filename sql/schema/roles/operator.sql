-- A person who defines, decides about items, and changes flows. The journal has their name.
select ledger.make_role('ledger_operator');

grant usage on schema ledger to ledger_operator;
grant usage on schema ledger_migration to ledger_operator;
grant select on ledger.actor, ledger.audit, ledger.calendar, ledger.calendar_use, ledger.credit, ledger.definition,
  ledger.due_item, ledger.due_item_default, ledger.expedited, ledger.failure_streak, ledger.finding,
  ledger.flood_pace, ledger.flow, ledger.held_key, ledger.kind, ledger.materialised, ledger.open_item, ledger.operation, ledger.operation_state,
  ledger.partition_span, ledger.pause, ledger.pending, ledger.process, ledger.process_status, ledger.rejected_write, ledger.repair, ledger.retired_key,
  ledger.review, ledger.run, ledger.seal, ledger.silent_topic, ledger.stalled_partition, ledger.state,
  ledger.transition, ledger.transition_event, ledger.triggered, ledger.tz_change,
  ledger.tz_change_version, ledger.withdrawal, ledger.witnessed, ledger_migration.applied to ledger_operator;
grant select (allocator_no, attempt, base_offset, batch_max, claimed_at, closed_at, deadline, effective_date, fence,
  flow_no, flow_nos, item_no, partition, published_at, size, started, topic, topic_actor_no) on ledger.claim to ledger_operator;
grant insert on ledger.calendar, ledger.definition, ledger.expedited, ledger.flow_change, ledger.kind,
  ledger.materialised, ledger.operation, ledger.pause, ledger.pending, ledger.rejected_write, ledger.review,
  ledger.transition, ledger.triggered, ledger.tz_change, ledger.tz_change_version, ledger.withdrawal,
  ledger.witnessed to ledger_operator;
grant insert (actor_no, detail, operation, reason, request_id, target, tenants) on ledger.audit to ledger_operator;
grant update (flow_no) on ledger.claim to ledger_operator;
grant update (circuit, circuit_at, circuit_calls_min, circuit_failure_ratio, circuit_rest_seconds,
  circuit_run_no, circuit_window_seconds, concurrency_max, lag_target_seconds, pause_reason, paused_at, paused_by,
  rate_per_second, retry_share, weight, window_items) on ledger.flow to ledger_operator;
grant update (attempt_max, backoff_base_seconds, backoff_cap_seconds, compression, dispatch, dispatch_seconds,
  failure_holds, grace_seconds, http, lease_seconds, no_replay, operation_approval_above, ordering, outcome_topic, policy_version, queue_late, queue_seconds, redacted_fields, run_late,
  run_seconds, settled_by, start_max, streak_max, topic, total_seconds) on ledger.kind to ledger_operator;
grant update (ends_at) on ledger.materialised to ledger_operator;
grant update (abort_reason, aborted_by, ended_at, pause_reason, paused_at, paused_by, stepped_at) on ledger.operation to ledger_operator;
grant update (paused_until, resumed_at, resumed_by) on ledger.pause to ledger_operator;
grant update (available_at, overlap, snoozed_until, state) on ledger.pending to ledger_operator;
grant update (drain_asked_at, drain_asked_by, drain_reason) on ledger.process to ledger_operator;
grant update (taken_at, taken_by) on ledger.review to ledger_operator;
grant update (flow_no) on ledger.run to ledger_operator;
grant update (applied_at, items, superseded) on ledger.tz_change_version to ledger_operator;
grant update (agreement, asked_at, package, reason, times) on ledger.witnessed to ledger_operator;
grant delete on ledger.pending, ledger.review, ledger.withdrawal to ledger_operator;
grant execute on function ledger.accept_disagreements, ledger.emit_items, ledger.ensure_flows, ledger.list_sequences,
  ledger.lock_name, ledger.measure_depth, ledger.move_items, ledger.register_actor,
  ledger.wake_sleepers to ledger_operator;
