create function ledger.add_past_load() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  sign constant integer := tg_argv[0];
begin
  insert into ledger.past_sum (tenant, kind, minutes, begins, items, completed, completed_late, in_review, withdrawn, written_off, had_failures)
  select c.tenant, c.kind, m.minutes, date_bin(make_interval(mins => m.minutes), c.quarter, '2000-01-01T00:00:00Z') as begins,
    sign * sum(c.items), sign * sum(c.completed), sign * sum(c.completed_late), sign * sum(c.in_review), sign * sum(c.withdrawn),
    sign * sum(c.written_off), sign * sum(c.had_failures)
  from changed c
  cross join (values (15), (60), (360), (1440)) m (minutes)
  group by 1, 2, 3, 4
  order by 1, 2, 3, 4
  on conflict (tenant, kind, minutes, begins) do update
  set items = past_sum.items + excluded.items, completed = past_sum.completed + excluded.completed,
    completed_late = past_sum.completed_late + excluded.completed_late, in_review = past_sum.in_review + excluded.in_review,
    withdrawn = past_sum.withdrawn + excluded.withdrawn, written_off = past_sum.written_off + excluded.written_off,
    had_failures = past_sum.had_failures + excluded.had_failures;
  if sign < 0 then
    delete from ledger.past_sum s where s.items = 0;
  end if;
  return null;
end $$;

comment on function ledger.add_past_load is 'Add rows of past_load to past_sum, or subtract them, as the argument of the trigger says.';
revoke execute on function ledger.add_past_load from public;

-- Of the triggers of an update the one that adds is first, by its name: no sum is below zero between them.
create trigger past_load_adds_inserted after insert on ledger.past_load
  referencing new table as changed
  for each statement execute function ledger.add_past_load('1');
create trigger past_load_adds_updated after update on ledger.past_load
  referencing new table as changed
  for each statement execute function ledger.add_past_load('1');
create trigger past_load_subtracts_updated after update on ledger.past_load
  referencing old table as changed
  for each statement execute function ledger.add_past_load('-1');
create trigger past_load_subtracts_deleted after delete on ledger.past_load
  referencing old table as changed
  for each statement execute function ledger.add_past_load('-1');
