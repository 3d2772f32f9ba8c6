-- Record that a process stopped in order.
-- returns: zero or one
-- roles: alerter, allocator, intake, materialiser, outcome_intake, reconciler, relay, service, worker
-- $1 process_no bigint
-- index: process_pkey
-- locks: process row (for update)
update ledger.process p
set ended_at = ledger.machine_now(), seen_at = ledger.machine_now(), sleeps_until = null
where p.process_no = $1::bigint and p.ended_at is null
returning p.process_no
