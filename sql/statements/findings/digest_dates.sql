-- Digest the rows of items and journal of a range of effective dates as digest_days does, all dates together: a third of its work.
-- returns: one
-- roles: auditor, reconciler
-- $1 from_date date
-- $2 to_date date
-- $3 key bigint
-- $4 since xid
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default)
select item.*, journal.*
from (
  select count(*) as items,
    coalesce(sum(ledger.row_version($3::bigint, i.tableoid, i.ctid, i.xmin)) filter (where age(i.xmin) <= age($4::xid)), 0) as item_versions
  from ledger.due_item i
  where i.effective_date >= $1::date and i.effective_date < $2::date
) item
cross join (
  select count(*) as transitions,
    coalesce(sum(ledger.row_version($3::bigint, t.tableoid, t.ctid, t.xmin)) filter (where age(t.xmin) <= age($4::xid)), 0) as transition_versions
  from ledger.transition t
  where t.effective_date >= $1::date and t.effective_date < $2::date
) journal
