-- The outcome intake: records the outcomes that consumers in other languages report.
select ledger.make_role('ledger_outcome_intake');

grant usage on schema ledger to ledger_outcome_intake;
grant select on ledger.due_item, ledger.due_item_default, ledger.expedited, ledger.failure_streak,
  ledger.flow, ledger.following, ledger.held_key, ledger.kind, ledger.pending, ledger.process, ledger.process_status, ledger.run,
  ledger.silent_topic, ledger.transition to ledger_outcome_intake;
grant select (allocator_no, attempt, batch_max, claimed_at, closed_at, effective_date, fence, flow_no, item_no,
  lease_seconds, partition, published_at, run_seconds, size, started, starts, token, topic_actor_no) on ledger.claim
  to ledger_outcome_intake;
grant insert on ledger.failure_streak, ledger.flow_outcome, ledger.pending, ledger.process,
  ledger.rejected_write, ledger.review, ledger.run, ledger.transition to ledger_outcome_intake;
grant update (closed_at, started) on ledger.claim to ledger_outcome_intake;
grant update (failures, last_at, reason) on ledger.failure_streak to ledger_outcome_intake;
grant update (does_upkeep, draining_since, drains, ended_at, failed_service, failing_since, failure, kind_tenants, kinds, locked_on,
  outbox_items, seen_at, sleeps_until, tick_seconds, ticked_at, unavailable_topics, unlocked_at, yields) on ledger.process to ledger_outcome_intake;
grant update (closed_at, ended, extended_at, lease_seconds, lease_until) on ledger.run to ledger_outcome_intake;
grant update (since) on ledger.silent_topic to ledger_outcome_intake;  -- to lock rows
grant delete on ledger.silent_topic to ledger_outcome_intake;
grant execute on function ledger.announce_sleep, ledger.lift_sequence, ledger.lock_partitions, ledger.register_actor,
  ledger.wake_sleepers to ledger_outcome_intake;
