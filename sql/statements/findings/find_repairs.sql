-- Find which of these repairs are recorded, each with its status, why it waits, and over which reasons it is approved; null if it is not.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 ids uuid[]
-- index: repair_pkey
-- locks: none
select r.id, r.status, r.held_because, case when r.approved_at is not null then coalesce(r.approved_over, '{}') end as approved_over
from ledger.repair r
where r.id = any($1::uuid[])
