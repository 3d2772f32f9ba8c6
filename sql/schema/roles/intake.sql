-- The event intake: records domain events and applies event rules.
select ledger.make_role('ledger_intake');

grant usage on schema ledger to ledger_intake;
grant select on ledger.calendar, ledger.definition, ledger.due_item, ledger.due_item_default, ledger.event,
  ledger.event_key, ledger.event_other_key, ledger.flow, ledger.partition_span, ledger.pending,
  ledger.process, ledger.process_status, ledger.review, ledger.transition, ledger.withdrawal to ledger_intake;
grant insert on ledger.event, ledger.event_key, ledger.event_other_key, ledger.process, ledger.transition,
  ledger.withdrawal to ledger_intake;
grant update (batch_max) on ledger.pending to ledger_intake;  -- to lock rows
grant update (does_upkeep, draining_since, drains, ended_at, failed_service, failing_since, failure, kind_tenants, kinds, locked_on,
  outbox_items, seen_at, sleeps_until, tick_seconds, ticked_at, unavailable_topics, unlocked_at, yields) on ledger.process to ledger_intake;
grant update (reason) on ledger.review to ledger_intake;  -- to lock rows
grant delete on ledger.pending, ledger.review, ledger.withdrawal to ledger_intake;
grant execute on function ledger.announce_sleep, ledger.emit_items, ledger.lock_rows, ledger.make_partition,
  ledger.register_actor, ledger.revise_items to ledger_intake;
