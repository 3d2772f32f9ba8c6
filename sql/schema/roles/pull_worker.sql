-- Pull workers, through the REST service: claims due items for them, and records the outcomes that they report.
select ledger.make_role('ledger_pull_worker');

grant usage on schema ledger to ledger_pull_worker;
grant select on ledger.due_item, ledger.due_item_default, ledger.expedited, ledger.failure_streak, ledger.flow,
  ledger.flow_outcome, ledger.following, ledger.held_key, ledger.kind, ledger.partition_backoff, ledger.pending,
  ledger.process, ledger.run, ledger.silent_topic, ledger.transition, ledger.withdrawal to ledger_pull_worker;
grant select (allocator_no, attempt, batch_max, claimed_at, closed_at, effective_date, fence, flow_no, item_no,
  lease_seconds, partition, published_at, run_seconds, size, started, starts, token, topic, topic_actor_no)
  on ledger.claim to ledger_pull_worker;
grant insert on ledger.claim, ledger.failure_streak, ledger.flow_outcome, ledger.held_key, ledger.pending,
  ledger.rejected_write, ledger.review, ledger.run, ledger.transition, ledger.withdrawal to ledger_pull_worker;
grant update (closed_at, started) on ledger.claim to ledger_pull_worker;
grant update (failures, last_at, reason) on ledger.failure_streak to ledger_pull_worker;
grant update (tokens, tokens_at) on ledger.flow to ledger_pull_worker;
grant update (available_at) on ledger.partition_backoff to ledger_pull_worker;  -- to lock rows
grant update (available_at) on ledger.pending to ledger_pull_worker;
grant update (closed_at, ended, extended_at, lease_seconds, lease_until) on ledger.run to ledger_pull_worker;
grant update (since) on ledger.silent_topic to ledger_pull_worker;  -- to lock rows
grant delete on ledger.partition_backoff, ledger.pending, ledger.silent_topic, ledger.withdrawal to ledger_pull_worker;
grant usage on sequence ledger.fence, ledger.run_run_no_seq to ledger_pull_worker;
grant execute on function ledger.lock_partitions, ledger.try_lock_rows, ledger.wake_sleepers to ledger_pull_worker;
