-- Months are made ahead, and one that is missing is made before the insert that needs it.

create table ledger.partition_month (
  parent text not null,
  month date not null,
  primary key (parent, month)
);

-- Attaching takes SHARE UPDATE EXCLUSIVE on the parent, so inserts elsewhere go on.
create function ledger.make_month(parent text, month date) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
as $$
declare
  child text := format('%s_%s', parent, to_char(month, 'YYYYMM'));
begin
  if parent not in ('due_item', 'transition', 'event', 'claim', 'run') or extract(day from month) <> 1 then
    raise exception using errcode = 'DL003', message = format('no monthly partition %s of %s', month, parent);
  end if;
  if exists (select from ledger.partition_month p where p.parent = make_month.parent and p.month = make_month.month) then
    return false;
  end if;
  -- One lock for all months: two transactions that each make several would otherwise wait for each other.
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
    parent, child, month, (month + interval '1 month')::date);
  insert into ledger.partition_month (parent, month) values (make_month.parent, make_month.month);
  return true;
end $$;

revoke execute on function ledger.make_month(text, date) from public;

-- Make every month from one before now to `ahead` after it. What is partitioned by when it happened needs no more than
-- two: each partition costs every statement that looks a fence or a run up by its number.
create function ledger.make_partitions(ahead interval default interval '13 months') returns integer
  language sql
as $$
  select count(*)::integer
  from unnest(array['due_item', 'transition', 'event', 'claim', 'run']) parent,
    generate_series(
      date_trunc('month', ledger.now() - interval '1 month', 'UTC') at time zone 'UTC',
      date_trunc('month', ledger.now()
        + case when parent in ('due_item', 'transition') then ahead else least(ahead, interval '2 months') end,
        'UTC') at time zone 'UTC',
      interval '1 month') month
  where not exists (
      select from ledger.partition_month p where p.parent = parent.parent and p.month = month.month::date)
    and ledger.make_month(parent.parent, month.month::date);
$$;

revoke execute on function ledger.make_partitions(interval) from public;
