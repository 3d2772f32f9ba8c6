-- Record that a process is awake: nobody notifies it.
-- returns: zero or one
-- roles: alerter, allocator, intake, materialiser, outcome_intake, reconciler, relay, service, worker
-- $1 process_no bigint
-- index: process_pkey
-- locks: process row (for update)
update ledger.process p
set sleeps_until = null
where p.process_no = $1::bigint and p.sleeps_until is not null
returning p.process_no
