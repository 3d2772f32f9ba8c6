-- The process that sends alerts: measures the ledger, and keeps what it has sent. Reads no item, key or payload.
select ledger.make_role('ledger_alerter');

grant usage on schema ledger to ledger_alerter;
grant select, insert, delete on ledger.alert to ledger_alerter;
grant update (end_sent_to, ended_at, sent_to, since, value) on ledger.alert to ledger_alerter;
grant execute on function ledger.measure_gauges, ledger.take_lead to ledger_alerter;
