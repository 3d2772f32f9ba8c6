-- Renew the row of a process that has not been renewed for five seconds; read the business clock, and whether it is asked to drain.
-- returns: one
-- roles: alerter, allocator, intake, materialiser, outcome_intake, reconciler, relay, service, worker
-- $1 process_no bigint
-- index: process_pkey
-- locks: process row (for update)
with renewed as (
  update ledger.process p
  set seen_at = ledger.machine_now()
  where p.process_no = $1::bigint and p.ended_at is null and p.seen_at <= ledger.machine_now() - interval '5 seconds'
)
select ledger.now() as now,
  exists (select from ledger.process p where p.process_no = $1::bigint and p.drain_asked_at is not null) as is_drain_asked
