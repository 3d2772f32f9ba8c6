-- Delete the oldest rejected writes that are older than some days. What others delete at the same time is not counted.
-- returns: one
-- roles: upkeep
-- $1 keep_days integer
-- $2 limit integer
-- index: rejected_write_at_idx, rejected_write_pkey
-- locks: rejected_write rows (for update)
with old as materialized (
  select w.rejected_no from ledger.rejected_write w
  where w.rejected_at < ledger.now() - make_interval(days => $1::integer)
  order by w.rejected_at, w.rejected_no limit $2::integer
),
deleted as (
  delete from ledger.rejected_write w using old o where w.rejected_no = o.rejected_no
  returning w.rejected_no
)
select count(*)::integer as deleted from deleted
