-- A person who reads: items, flows, definitions, findings, and all that a reconciliation compares. Changes nothing.
select ledger.make_role('ledger_auditor');

grant usage on schema ledger to ledger_auditor;
grant usage on schema ledger_migration to ledger_auditor;
grant select on ledger.actor, ledger.alert, ledger.audit, ledger.calendar, ledger.calendar_use, ledger.cell,
  ledger.credit, ledger.definition, ledger.due_item, ledger.due_item_default, ledger.event, ledger.event_key,
  ledger.event_other_key, ledger.expedited, ledger.failure_streak, ledger.finding, ledger.flood_pace, ledger.flow, ledger.following, ledger.held_key,
  ledger.kind, ledger.materialised, ledger.missed_range, ledger.open_item, ledger.operation, ledger.operation_state,
  ledger.overview, ledger.overview_flow, ledger.overview_minute, ledger.overview_reader, ledger.partition_backoff, ledger.partition_span,
  ledger.past_load_count, ledger.past_sum, ledger.pause, ledger.pending, ledger.population, ledger.process_status, ledger.reconciliation, ledger.rejected_write, ledger.repair,
  ledger.report, ledger.report_row,
  ledger.retired_key, ledger.review, ledger.run, ledger.seal, ledger.silent_topic, ledger.stalled_partition, ledger.state,
  ledger.transition, ledger.transition_event, ledger.triggered, ledger.tz_change, ledger.tz_change_version, ledger.watermark,
  ledger.withdrawal, ledger.witnessed, ledger_migration.applied to ledger_auditor;
grant select (allocator_no, attempt, base_offset, batch_max, claimed_at, closed_at, deadline, effective_date, fence,
  flow_no, flow_nos, item_no, partition, published_at, queue_seconds, size, started, topic, topic_actor_no) on ledger.claim to ledger_auditor;
grant execute on function ledger.has_token, ledger.list_sequences, ledger.measure_depth to ledger_auditor;
