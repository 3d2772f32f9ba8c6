-- Record for which kinds, and for which tenants of them, a process has workers: of a service, those that pull workers ask for.
-- returns: zero or one
-- roles: alerter, allocator, intake, materialiser, outcome_intake, reconciler, relay, service, worker
-- $1 process_no bigint
-- $2 kinds text[]
-- $3 kind_tenants jsonb
-- index: process_pkey
-- locks: process row (for update)
update ledger.process p
set kinds = $2::text[], kind_tenants = $3::jsonb
where p.process_no = $1::bigint and p.ended_at is null
returning p.process_no
