-- The materialiser: turns schedules into items.
select ledger.make_role('ledger_materialiser');

grant usage on schema ledger to ledger_materialiser;
grant select on ledger.calendar, ledger.calendar_use, ledger.definition, ledger.due_item,
  ledger.due_item_default, ledger.expedited, ledger.following, ledger.materialised, ledger.missed_range,
  ledger.partition_span, ledger.pending, ledger.process, ledger.process_status, ledger.retired_key, ledger.transition,
  ledger.withdrawal to ledger_materialiser;
grant insert on ledger.calendar_use, ledger.following, ledger.missed_range, ledger.process, ledger.transition
  to ledger_materialiser;
grant update (definition_no, delay_seconds) on ledger.following to ledger_materialiser;
grant update (failed_at, failure, materialised_until, tzdata) on ledger.materialised to ledger_materialiser;
grant update (occurrences, recorded_at, until_at) on ledger.missed_range to ledger_materialiser;
grant update (batch_max) on ledger.pending to ledger_materialiser;  -- to lock rows
grant update (does_upkeep, draining_since, drains, ended_at, failed_service, failing_since, failure, kind_tenants, kinds, locked_on,
  outbox_items, seen_at, sleeps_until, tick_seconds, ticked_at, unavailable_topics, unlocked_at, yields) on ledger.process to ledger_materialiser;
grant delete on ledger.pending, ledger.withdrawal to ledger_materialiser;
grant execute on function ledger.announce_sleep, ledger.emit_items, ledger.make_partition, ledger.register_actor,
  ledger.revise_items to ledger_materialiser;
