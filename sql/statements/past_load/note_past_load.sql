-- Note that a pass has counted all items that were due from a time on, and forget those of before, up to a limit of rows.
-- returns: one
-- roles: reconciler
-- $1 as_of timestamptz
-- $2 counted_from timestamptz
-- $3 limit integer
-- index: past_load_quarter_idx, past_load_pkey
-- locks: past_load_count row
with old as materialized (
  select l.tenant, l.kind, l.quarter, l.effective_date from ledger.past_load l
  where l.quarter < $2::timestamptz order by l.quarter limit $3::integer
),
forgotten as (
  delete from ledger.past_load l using old o
  where l.tenant = o.tenant and l.kind = o.kind and l.quarter = o.quarter and l.effective_date = o.effective_date
  returning 1
),
noted as (
  insert into ledger.past_load_count (as_of, counted_from) values ($1::timestamptz, $2::timestamptz)
  on conflict (one) do update set as_of = excluded.as_of, counted_from = excluded.counted_from
)
select count(*)::integer as forgotten from forgotten
