-- Open the record of one pass and fix its moment on business time.
-- returns: one
-- roles: reconciler
-- $1 actor_no bigint
-- $2 scope text
-- index: none
-- locks: none
insert into ledger.reconciliation (started_at, as_of, actor_no, scope)
values (ledger.machine_now(), ledger.now(), $1::bigint, $2::text::jsonb)
returning reconciliation_no, started_at, as_of
