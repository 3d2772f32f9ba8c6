-- Renew the row of a process that has not been renewed for five seconds.
-- returns: zero or one
-- roles: allocator, intake, materialiser, outcome_intake, reconciler, relay, service, worker
-- $1 process_no bigint
-- index: process_pkey
-- locks: process row (for update)
update ledger.process p
set seen_at = ledger.machine_now()
where p.process_no = $1::bigint and p.ended_at is null and p.seen_at <= ledger.machine_now() - interval '5 seconds'
returning p.process_no
