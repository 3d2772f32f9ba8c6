-- Pause an open operation after the items that it has moved so far, in a named person's name. One that is paused already stays as it is.
-- returns: zero or one
-- roles: operator
-- $1 operation_no bigint
-- $2 reason text
-- $3 actor_no bigint
-- $4 tenants text[]
-- index: operation_open_idx
-- locks: operation row (for update)
update ledger.operation o
set paused_at = ledger.now(), paused_by = $3::bigint, pause_reason = $2::text
where o.operation_no = $1::bigint and o.ended_at is null and o.paused_at is null
  and ($4::text[] is null or o.tenant = any ($4::text[]))
returning case when o.advanced_at is null then 'waiting' else 'running' end as was
