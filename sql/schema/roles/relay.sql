-- The relay of a service: emits what the service's outbox holds. It writes items as an emitter does, and its own presence.
select ledger.make_role('ledger_relay');

grant usage on schema ledger to ledger_relay;
grant select on ledger.process, ledger.process_status to ledger_relay;
grant insert on ledger.process to ledger_relay;
grant update (does_upkeep, draining_since, drains, ended_at, failed_service, failing_since, failure, kind_tenants, kinds, locked_on,
  outbox_items, seen_at, sleeps_until, tick_seconds, ticked_at, unavailable_topics, unlocked_at, yields) on ledger.process to ledger_relay;
grant execute on function ledger.announce_sleep, ledger.emit_arrays, ledger.register_actor to ledger_relay;
