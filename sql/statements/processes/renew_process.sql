-- Renew the row of a process that has not been renewed for five seconds, with the last pass of its loop; read the business clock, and whether it is asked to drain.
-- returns: one
-- roles: alerter, allocator, intake, materialiser, outcome_intake, reconciler, relay, service, worker
-- $1 process_no bigint
-- $2 ticked_before double precision
-- $3 tick_seconds double precision
-- $4 outbox_items integer
-- index: process_pkey
-- locks: process row (for update)
with renewed as (
  update ledger.process p
  set seen_at = ledger.machine_now(),
    ticked_at = coalesce(ledger.machine_now() - make_interval(secs => $2::double precision), p.ticked_at),
    tick_seconds = coalesce($3::double precision, p.tick_seconds), outbox_items = coalesce($4::integer, p.outbox_items)
  where p.process_no = $1::bigint and p.ended_at is null and p.seen_at <= ledger.machine_now() - interval '5 seconds'
)
select ledger.now() as now,
  exists (select from ledger.process p where p.process_no = $1::bigint and p.drain_asked_at is not null) as is_drain_asked
