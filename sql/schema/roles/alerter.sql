-- The process that sends alerts: measures the ledger, and keeps what it has sent, and its own presence. Reads no item, key or payload.
select ledger.make_role('ledger_alerter');

grant usage on schema ledger to ledger_alerter;
grant select on ledger.process, ledger.process_status to ledger_alerter;
grant select, insert, delete on ledger.alert to ledger_alerter;
grant insert on ledger.process to ledger_alerter;
grant update (end_sent_to, ended_at, sent_to, since, value) on ledger.alert to ledger_alerter;
grant update (does_upkeep, draining_since, drains, ended_at, failed_service, failing_since, failure, kind_tenants, kinds, locked_on,
  outbox_items, seen_at, sleeps_until, tick_seconds, ticked_at, unavailable_topics, unlocked_at, yields) on ledger.process to ledger_alerter;
grant execute on function ledger.announce_sleep, ledger.measure_gauges, ledger.register_actor, ledger.take_lead to ledger_alerter;
