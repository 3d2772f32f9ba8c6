-- Delete the oldest reports that are older than some days, their findings and repairs before them. What others delete at the same time is not counted.
-- returns: one
-- roles: upkeep
-- $1 keep_days integer
-- $2 limit integer
-- index: report_as_of_idx, report_row_pkey, report_pkey
-- locks: report_row rows, then report rows (for update)
with old as materialized (
  select r.tenant, r.reconciliation_no
  from ledger.report r
  where r.as_of < ledger.now() - make_interval(days => $1::integer)
  order by r.as_of, r.reconciliation_no, r.tenant limit $2::integer
),
old_row as materialized (
  select w.*
  from (select distinct o.reconciliation_no from old o) o
  cross join lateral (
    select w.reconciliation_no, w.list, w.tenant, w.row_no
    from ledger.report_row w where w.reconciliation_no = o.reconciliation_no
    order by w.list, w.tenant, w.row_no limit $2::integer
  ) w
  limit $2::integer
),
deleted_row as (
  delete from ledger.report_row w using old_row o
  where w.reconciliation_no = o.reconciliation_no and w.list = o.list and w.tenant = o.tenant and w.row_no = o.row_no
  returning w.row_no
),
deleted as (
  delete from ledger.report r using old o
  where r.tenant = o.tenant and r.reconciliation_no = o.reconciliation_no
    and (select count(*) from old_row) < $2::integer  -- with its last rows
  returning r.reconciliation_no
)
select ((select count(*) from deleted_row) + (select count(*) from deleted))::integer as deleted
