-- List open operations, the first one first.
-- returns: zero or more
-- roles: auditor, operator
-- $1 limit integer
-- index: operation_open_idx
-- locks: none
select o.operation_no, o.verb, o.paused_at is not null as is_paused, o.awaits_approval
from ledger.operation o
where o.ended_at is null order by o.operation_no limit $1::integer
