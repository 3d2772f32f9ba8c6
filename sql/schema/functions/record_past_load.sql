create function ledger.record_past_load(
  from_date date, to_date date, tenants text[], kinds text[], quarters timestamptz[], effective_dates date[], items integer[],
  completed integer[], completed_late integer[], in_review integer[], withdrawn integer[], written_off integer[], had_failures integer[]
) returns integer
  language sql security definer set search_path = pg_catalog, pg_temp
  set jit = off set enable_hashjoin = on set enable_nestloop = off  -- of all rows of the dates, whatever statistics say
as $$
  select from ledger.lock_row l where l.subject = 'past_load' for update;  -- windows of two passes share sums
  with counted as materialized (
    select coalesce(u.tenant, '') as tenant, coalesce(u.kind, '') as kind, u.quarter, u.effective_date, sum(u.items)::integer as items,
      sum(u.completed)::integer as completed, sum(u.completed_late)::integer as completed_late, sum(u.in_review)::integer as in_review,
      sum(u.withdrawn)::integer as withdrawn, sum(u.written_off)::integer as written_off, sum(u.had_failures)::integer as had_failures
    from unnest(tenants, kinds, quarters, effective_dates, items, completed, completed_late, in_review, withdrawn, written_off,
      had_failures) u (tenant, kind, quarter, effective_date, items, completed, completed_late, in_review, withdrawn, written_off, had_failures)
    group by grouping sets (
      (u.tenant, u.kind, u.quarter, u.effective_date), (u.tenant, u.quarter, u.effective_date), (u.quarter, u.effective_date))
  ),
  -- What is not changed is not written: a conflict would lock each row.
  changed as materialized (
    select c.* from counted c
    left join ledger.past_load l
      on l.effective_date >= from_date and l.effective_date < to_date
      and (l.tenant, l.kind, l.quarter, l.effective_date) = (c.tenant, c.kind, c.quarter, c.effective_date)
    where (c.items, c.completed, c.completed_late, c.in_review, c.withdrawn, c.written_off, c.had_failures)
      is distinct from (l.items, l.completed, l.completed_late, l.in_review, l.withdrawn, l.written_off, l.had_failures)
  ),
  gone as (
    delete from ledger.past_load l
    where l.effective_date >= from_date and l.effective_date < to_date
      and not exists (
        select from counted c
        where (c.tenant, c.kind, c.quarter, c.effective_date) = (l.tenant, l.kind, l.quarter, l.effective_date))
    returning 1
  ),
  written as (
    insert into ledger.past_load (tenant, kind, quarter, effective_date, items, completed, completed_late, in_review, withdrawn, written_off,
      had_failures)
    select c.tenant, c.kind, c.quarter, c.effective_date, c.items, c.completed, c.completed_late, c.in_review, c.withdrawn, c.written_off,
      c.had_failures
    from changed c
    order by c.tenant, c.kind, c.quarter, c.effective_date
    on conflict (tenant, kind, quarter, effective_date) do update
    set items = excluded.items, completed = excluded.completed, completed_late = excluded.completed_late, in_review = excluded.in_review,
      withdrawn = excluded.withdrawn, written_off = excluded.written_off, had_failures = excluded.had_failures
    returning 1
  )
  select ((select count(*) from gone) + (select count(*) from written))::integer
$$;

comment on function ledger.record_past_load is
  'Record the results of the items of a half-open range of effective dates, in place of what was recorded of them, '
  'and its sums by tenant and of all. Returns how many rows were changed.';
revoke execute on function ledger.record_past_load from public;
