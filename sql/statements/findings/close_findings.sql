-- Close the open findings that a pass checked and did not find again: repaired if a repair was executed, else explained.
-- returns: zero or more
-- roles: reconciler
-- $1 reconciliation_no bigint
-- $2 judged_types text[]
-- $3 unjudged_types text[]
-- $4 unjudged_tenants text[]
-- $5 unjudged_kinds text[]
-- $6 from_date date
-- $7 to_date date
-- index: finding_pkey
-- locks: finding rows (for update, id ascending)
with cleared as materialized (
  select f.id
  from ledger.finding f
  where f.closed_at is null and f.type = any($2::text[]) and f.reconciliation_no < $1::bigint
    and (f.effective_date is null or f.effective_date >= $6::date and f.effective_date < $7::date)
    and not exists (
      select from unnest($3::text[], $4::text[], $5::text[]) u (type, tenant, kind)
      where u.type = f.type and u.tenant = f.tenant and u.kind = f.kind)
  order by f.id
  for update
)
update ledger.finding f set
  closed_at = ledger.now(),
  resolution = case
    when exists (
      select from ledger.repair r
      where r.finding_id = f.id and r.opened_count = f.opened_count and r.status = 'executed')
    then 'repaired' else 'explained' end,
  reason = 'cleared'
from cleared c
where f.id = c.id
returning f.id, f.type, f.tenant, f.kind, f.resolution
