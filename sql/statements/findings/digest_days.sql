-- Digest the versions of the rows of items and journal of each effective date of a range: counts, and sums of hashes of those written since a transaction.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 from_date date
-- $2 to_date date
-- $3 key bigint
-- $4 since xid
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default),
item as (
  select i.effective_date, count(*) as items, sum(ledger.row_version($3::bigint, i.tableoid, i.ctid, i.xmin)) filter (where age(i.xmin) <= age($4::xid)) as versions
  from ledger.due_item i
  where i.effective_date >= $1::date and i.effective_date < $2::date
  group by i.effective_date
),
journal as (
  select t.effective_date, count(*) as transitions, sum(ledger.row_version($3::bigint, t.tableoid, t.ctid, t.xmin)) filter (where age(t.xmin) <= age($4::xid)) as versions
  from ledger.transition t
  where t.effective_date >= $1::date and t.effective_date < $2::date
  group by t.effective_date
)
select effective_date, coalesce(i.items, 0) as items, coalesce(i.versions, 0) as item_versions,
  coalesce(j.transitions, 0) as transitions, coalesce(j.versions, 0) as transition_versions
from item i
full join journal j using (effective_date)
order by effective_date
