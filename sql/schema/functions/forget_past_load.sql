create function ledger.forget_past_load(before timestamptz, row_max integer) returns integer
  language sql security definer set search_path = pg_catalog, pg_temp
as $$
  select from ledger.lock_row l where l.subject = 'past_load' for update;
  with old as materialized (
    select l.tenant, l.kind, l.quarter, l.effective_date from ledger.past_load l
    where l.quarter < before order by l.quarter limit row_max
  ),
  forgotten as (
    delete from ledger.past_load l using old o
    where (l.tenant, l.kind, l.quarter, l.effective_date) = (o.tenant, o.kind, o.quarter, o.effective_date)
    returning 1
  )
  select count(*)::integer from forgotten
$$;

comment on function ledger.forget_past_load is
  'Delete the results of the items that were due before a time, up to a number of rows, and subtract them from their sums. Returns how many.';
revoke execute on function ledger.forget_past_load from public;
