-- Record until when a process sleeps unless it is notified; return the number of the transaction that records it.
-- returns: zero or one, none where the process has no lock: it could not be notified
-- roles: alerter, allocator, intake, materialiser, outcome_intake, reconciler, relay, service, worker
-- $1 process_no bigint
-- $2 seconds double precision
-- $3 kinds text[]
-- index: process_pkey
-- locks: process row (for update)
update ledger.process p
set sleeps_until = ledger.now() + make_interval(secs => $2::double precision * ledger.clock_rate()), kinds = $3::text[],
  seen_at = ledger.machine_now()
where p.process_no = $1::bigint and p.ended_at is null and p.locked_on is not null
returning case when ledger.announce_sleep(p.sleeps_until) then pg_current_xact_id()::text::bigint end as transaction_no
