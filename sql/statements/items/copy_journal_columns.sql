-- Give the journal of a range of effective dates as columns of fixed width, for COPY in binary form.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 from_date date
-- $2 to_date date
-- $3 key bigint
-- $4 since xid
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default)
select t.effective_date, t.item_no, t.event, t.attempt, coalesce(t.run_no, -1) as run_no, t.actor_no, t.at,
  case when age(t.xmin) <= age($4::xid) then ledger.row_version($3::bigint, t.tableoid, t.ctid, t.xmin) else 0 end as version
from ledger.transition t
where t.effective_date >= $1::date and t.effective_date < $2::date
