-- Delete the oldest entries of the audit that are older than some days. What others delete at the same time is not counted.
-- returns: one
-- roles: upkeep
-- $1 keep_days integer
-- $2 limit integer
-- index: audit_at_idx, audit_pkey
-- locks: audit rows (for update)
with old as materialized (
  select a.audit_no from ledger.audit a
  where a.at < ledger.now() - make_interval(days => $1::integer)
  order by a.at, a.audit_no limit $2::integer
),
deleted as (
  delete from ledger.audit a using old o where a.audit_no = o.audit_no
  returning a.audit_no
)
select count(*)::integer as deleted from deleted
