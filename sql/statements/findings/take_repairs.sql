-- Take proposed repairs for execution in this transaction; those that another transaction executes are skipped.
-- returns: zero or more
-- roles: reconciler
-- $1 ids uuid[]
-- index: repair_pkey
-- locks: repair rows (for update skip locked, id ascending)
select r.id, r.finding_id, r.action, r.command, case when r.approved_at is not null then coalesce(r.approved_over, '{}') end as approved_over
from ledger.repair r
where r.id = any($1::uuid[]) and r.status = 'proposed'
order by r.id
for update skip locked
