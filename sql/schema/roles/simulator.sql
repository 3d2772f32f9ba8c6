-- May use a simulated clock: for tests, the demo and `dueledger dev`, never in production.
select ledger.make_role('ledger_simulator');

grant usage on schema ledger to ledger_simulator;
