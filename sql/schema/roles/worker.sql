-- The worker: starts runs and settles them.
select ledger.make_role('ledger_worker');

grant usage on schema ledger to ledger_worker;
grant select on ledger.credit, ledger.due_item, ledger.due_item_default, ledger.expedited,
  ledger.failure_streak, ledger.flow, ledger.following, ledger.held_key, ledger.kind,
  ledger.partition_backoff, ledger.pending, ledger.process, ledger.process_status, ledger.run,
  ledger.stalled_partition, ledger.withdrawal to ledger_worker;
grant select (allocator_no, attempt, batch_max, claimed_at, closed_at, deadline, effective_date, fence,
  flow_no, item_no, partition, run_seconds, size, started, starts, token, topic, topic_actor_no) on ledger.claim
  to ledger_worker;
grant insert on ledger.credit, ledger.failure_streak, ledger.flow_outcome, ledger.pending, ledger.process,
  ledger.rejected_write, ledger.review, ledger.run, ledger.stalled_partition, ledger.transition to
  ledger_worker;
grant update (closed_at, started) on ledger.claim to ledger_worker;
grant update (granted_until, items) on ledger.credit to ledger_worker;
grant update (failures, last_at, reason) on ledger.failure_streak to ledger_worker;
grant update (available_at) on ledger.partition_backoff to ledger_worker;  -- to lock rows
grant update (does_upkeep, draining_since, drains, ended_at, failed_service, failing_since, failure, kind_tenants, kinds, locked_on,
  outbox_items, seen_at, sleeps_until, tick_seconds, ticked_at, unavailable_topics, unlocked_at, yields) on ledger.process to ledger_worker;
grant update (closed_at, ended, extended_at, lease_seconds, lease_until, overran) on ledger.run to ledger_worker;
grant delete on ledger.credit, ledger.partition_backoff, ledger.stalled_partition, ledger.withdrawal to ledger_worker;
grant execute on function ledger.announce_sleep, ledger.lift_sequence, ledger.lock_partitions, ledger.register_actor,
  ledger.wake_sleepers to ledger_worker;
