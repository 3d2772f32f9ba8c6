-- The REST service: checks API keys. Each request runs under the role of its scope, of which the login is a member, too.
select ledger.make_role('ledger_service');

grant usage on schema ledger to ledger_service;
grant select on ledger.actor, ledger.api_answer, ledger.api_key, ledger.console_session, ledger.cursor_secret, ledger.process,
  ledger.process_status
  to ledger_service;
grant insert on ledger.api_answer, ledger.console_session, ledger.process to ledger_service;
grant update (body, location, status) on ledger.api_answer to ledger_service;
grant update (last_used_at) on ledger.api_key to ledger_service;
grant update (expires_at) on ledger.console_session to ledger_service;
grant update (certificate_expires_at, does_upkeep, draining_since, drains, ended_at, failed_service, failing_since, failure, kind_tenants, kinds, locked_on,
  outbox_items, seen_at, sleeps_until, tick_seconds, ticked_at, unavailable_topics, unlocked_at, yields) on ledger.process to ledger_service;
grant execute on function ledger.add_overview_flows, ledger.announce_sleep, ledger.count_overview_in_flight,
  ledger.count_overview_minutes, ledger.count_overview_waiting, ledger.lift_sequence, ledger.measure_overview_rates, ledger.read_overview_runs, ledger.register_actor, ledger.take_lead to
  ledger_service;
