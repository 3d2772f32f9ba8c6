-- Attaching takes SHARE UPDATE EXCLUSIVE on the parent, so inserts elsewhere go on.
create function ledger.make_partition(parent text, day date) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
declare
  first_day date := ledger.partition_start(day);
  monthly boolean := first_day >= date '2020-01-01' and first_day < date '2050-01-01';
  next_day date := first_day + case when monthly then interval '1 month' else interval '1 year' end;
  child text := format('%s_%s', parent, to_char(first_day, case when monthly then 'YYYYMM' else 'YYYY' end));
begin
  if parent not in ('due_item', 'transition', 'event', 'claim', 'run')
    or day is null or day < date '1970-01-01' or day >= date '2200-01-01' then
    raise exception using errcode = 'DL003', message = format('no partition of %s holds %s', parent, day);
  end if;
  if exists (
    select from ledger.partition_span p where p.parent = make_partition.parent and p.starts_on = first_day
  ) then
    return false;
  end if;
  -- One lock for all of them: two transactions that each make several would otherwise wait for each other.
  perform pg_advisory_xact_lock(hashtextextended('ledger.partition', 0));
  if to_regclass('ledger.' || child) is not null then
    return false;
  end if;
  execute format('create table ledger.%I (like ledger.%I including all excluding identity)', child, parent);
  if parent in ('claim', 'run') then
    execute format(
      'alter table ledger.%I set (fillfactor = 70, autovacuum_vacuum_scale_factor = 0,'
      ' autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0)', child);
  end if;
  execute format(
    'alter table ledger.%I attach partition ledger.%I for values from (%L) to (%L)',
    parent, child, first_day, next_day);
  insert into ledger.partition_span (parent, starts_on, ends_before)
  values (make_partition.parent, first_day, next_day);
  return true;
end $$;

comment on function ledger.make_partition is 'Make the table partition that holds a date; false where it exists.';
