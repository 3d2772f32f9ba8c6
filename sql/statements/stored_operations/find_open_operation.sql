-- Find the open operation of the next number after one, or else the first; those that are paused or await approval are left out.
-- returns: zero or one
-- roles: upkeep
-- $1 after_operation_no bigint
-- index: operation_open_idx
-- locks: none
select o.operation_no from ledger.operation o
where o.ended_at is null and o.paused_at is null and not o.awaits_approval
order by o.operation_no > $1::bigint desc, o.operation_no
limit 1
