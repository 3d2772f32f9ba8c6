-- A monitoring system: reads how much waits and how far kinds are complete. Reads no item, key or payload; changes nothing.
select ledger.make_role('ledger_monitor');

grant usage on schema ledger to ledger_monitor;
grant select on ledger.depth, ledger.watermark to ledger_monitor;
grant execute on function ledger.measure_depth, ledger.measure_gauges to ledger_monitor;
