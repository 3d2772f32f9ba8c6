-- Digest the rows of recorded domain events of these types, in pages of 65,536 numbers, some pages at a time: counts, and sums of hashes of versions written since a transaction.
-- returns: zero or more, each page that has an event; without a digest if it has none of these types
-- roles: auditor, reconciler
-- $1 types text[]
-- $2 from_page bigint
-- $3 limit integer
-- $4 key bigint
-- $5 since xid
-- index: event_pkey
-- locks: none
with recursive visited (page, place) as (
  (select e.event_no >> 16, 1 from ledger.event e where e.event_no >= $2::bigint << 16 order by e.event_no limit 1)
  union all
  select (select e.event_no >> 16 from ledger.event e where e.event_no >= (v.page + 1) << 16 order by e.event_no limit 1), v.place + 1
  from visited v where v.page is not null and v.place < $3::integer
),
digested as (
  select e.event_no >> 16 as page, concat_ws(
      '/', count(*), sum(ledger.row_version($4::bigint, e.tableoid, e.ctid, e.xmin)) filter (where age(e.xmin) <= age($5::xid))) as digest
  from ledger.event e
  where e.event_no >= (select min(v.page) << 16 from visited v) and e.event_no < (select (max(v.page) + 1) << 16 from visited v)
    and e.type = any($1::text[])
  group by e.event_no >> 16
)
select v.page, d.digest
from visited v left join digested d on d.page = v.page
where v.page is not null
order by v.page
