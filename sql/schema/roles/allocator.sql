-- The allocator: claims due items, publishes them, and releases them. Direct workers claim with it, too.
select ledger.make_role('ledger_allocator');

grant usage on schema ledger to ledger_allocator;
grant select on ledger.credit, ledger.due_item, ledger.due_item_default, ledger.expedited, ledger.flood_pace, ledger.flow,
  ledger.flow_outcome, ledger.held_key, ledger.kind, ledger.pending, ledger.process,
  ledger.process_status, ledger.run, ledger.silent_topic, ledger.withdrawal to ledger_allocator;
grant select (allocator_no, attempt, available_since, batch_max, claimed_at, closed_at, deadline, effective_date, fence,
  flow_no, item_no, lag_flow_no, lease_seconds, published_at, queue_seconds, run_seconds, size, started, starts,
  token, topic, topic_actor_no) on ledger.claim to ledger_allocator;
grant insert on ledger.claim, ledger.held_key, ledger.pending, ledger.process, ledger.run, ledger.transition,
  ledger.withdrawal to ledger_allocator;
grant update (base_offset, closed_at, deadline, published_at, started) on ledger.claim to ledger_allocator;
grant update (counted_from, flow_no, lag_seconds, lag_target_seconds, share, slowed_at, stepped_at) on ledger.flood_pace
  to ledger_allocator;
grant update (tokens, tokens_at) on ledger.flow to ledger_allocator;
grant update (available_at) on ledger.pending to ledger_allocator;
grant update (does_upkeep, draining_since, drains, ended_at, failed_service, failing_since, failure, kind_tenants, kinds, locked_on,
  outbox_items, seen_at, sleeps_until, tick_seconds, ticked_at, unavailable_topics, unlocked_at, yields) on ledger.process to ledger_allocator;
grant delete on ledger.pending, ledger.withdrawal to ledger_allocator;
grant usage on sequence ledger.fence, ledger.run_run_no_seq to ledger_allocator;
grant execute on function ledger.announce_sleep, ledger.lift_sequence, ledger.lock_partitions, ledger.register_actor,
  ledger.try_lock_rows, ledger.wake_sleepers to ledger_allocator;
