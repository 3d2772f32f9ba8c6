-- Resume a paused operation: it goes on after the items that it had moved.
-- returns: zero or one
-- roles: operator
-- $1 operation_no bigint
-- $2 tenants text[]
-- index: operation_open_idx
-- locks: operation row (for update)
update ledger.operation o
set paused_at = null, paused_by = null, pause_reason = null, stepped_at = null
where o.operation_no = $1::bigint and o.ended_at is null and o.paused_at is not null
  and ($2::text[] is null or o.tenant = any ($2::text[]))
returning o.operation_no
