-- Of the next rejected writes by number: count them by verb and reason.
-- returns: zero or more, each with the number to continue after, null after the last writes
-- roles: auditor, reconciler
-- $1 after_rejected_no bigint
-- $2 limit integer
-- index: rejected_write_pkey
-- locks: none
with page as materialized (
  select w.rejected_no, w.verb, w.reason from ledger.rejected_write w where w.rejected_no > $1::bigint order by w.rejected_no limit $2::integer
)
select (select case when count(*) = $2::integer then max(p.rejected_no) end from page p) as reached, p.verb, p.reason,
  count(*) as refused_count
from page p
group by p.verb, p.reason
