-- Find which of these repairs are recorded, each with its status, why it waits, and whether it is approved.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 ids uuid[]
-- index: repair_pkey
-- locks: none
select r.id, r.status, r.held_because, r.approved_at is not null as approved
from ledger.repair r
where r.id = any($1::uuid[])
