-- Record that a process drains, since when it was first recorded.
-- returns: zero or one
-- roles: alerter, allocator, intake, materialiser, outcome_intake, reconciler, relay, service, worker
-- $1 process_no bigint
-- index: process_pkey
-- locks: process row (for update)
update ledger.process p
set draining_since = ledger.machine_now()
where p.process_no = $1::bigint and p.ended_at is null and p.draining_since is null
returning p.process_no
