-- End an open operation after the items that it has moved so far, in a named person's name.
-- returns: zero or one
-- roles: operator
-- $1 operation_no bigint
-- $2 reason text
-- $3 actor_no bigint
-- $4 tenants text[]
-- index: operation_open_idx
-- locks: operation row (for update)
update ledger.operation o
set ended_at = ledger.now(), aborted_by = $3::bigint, abort_reason = $2::text
where o.operation_no = $1::bigint and o.ended_at is null and ($4::text[] is null or o.tenant = any ($4::text[]))
returning case when o.paused_at is not null then 'paused' when o.advanced_at is not null then 'running' else 'waiting' end as was
