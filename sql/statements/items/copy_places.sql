-- Give items that wait, are parked, claimed or running, once for each of these, by ascending number, some after a number, with versions of the rows by which they wait or are parked, for COPY in binary form.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 after_item_no bigint
-- $2 limit integer
-- $3 key bigint
-- $4 since xid
-- index: pending_pkey, review_pkey
-- locks: none
select o.item_no, o.effective_date, o.state, o.version
from (
  (select p.item_no, p.effective_date, 1::smallint /* Scheduled */ as state,
     case when age(p.xmin) <= age($4::xid) then ledger.row_version($3::bigint, p.tableoid, p.ctid, p.xmin) else 0 end as version
   from ledger.pending p
   where p.item_no > $1::bigint order by p.item_no limit $2::integer)
  union all
  (select r.item_no, r.effective_date, 5::smallint /* ManualReview */,
     case when age(r.xmin) <= age($4::xid) then ledger.row_version($3::bigint, r.tableoid, r.ctid, r.xmin) else 0 end
   from ledger.review r
   where r.item_no > $1::bigint order by r.item_no limit $2::integer)
  union all
  -- A run beyond the end of its claim has no item there, and nothing is greater than null.
  select c.item_no, c.effective_date, c.state, 0 from ledger.open_item c where c.item_no > $1::bigint
) o
order by o.item_no
-- All places of the last item.
fetch first ($2::integer) rows with ties
