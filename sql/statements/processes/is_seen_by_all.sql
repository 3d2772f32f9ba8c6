-- Return whether every transaction that is open began to write after the given one ended.
-- returns: one
-- roles: alerter, allocator, intake, materialiser, outcome_intake, reconciler, relay, service, worker
-- $1 transaction_no bigint
-- index: none
-- locks: none
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint > $1::bigint as is_seen
