-- Record why the attempts of a process to take work fail, and which topics it could not publish to; or that they succeed.
-- returns: zero or one
-- roles: alerter, allocator, intake, materialiser, outcome_intake, reconciler, relay, service, worker
-- $1 process_no bigint
-- $2 failure text
-- $3 failed_service text
-- $4 unavailable_topics jsonb
-- index: process_pkey
-- locks: process row (for update)
update ledger.process p
set failing_since = case when $2::text is not null then coalesce(p.failing_since, ledger.machine_now()) end,
  failure = $2::text, failed_service = $3::text, unavailable_topics = $4::jsonb
where p.process_no = $1::bigint and p.ended_at is null
returning p.process_no
