-- Partitions are made ahead, and one that is missing is made before the insert that needs it: a month each from 2020
-- to 2049, a year each before and after, so that scattered dates cannot make more than some hundreds of them.

create table ledger.partition_span (
  parent text not null,
  starts_on date not null,
  ends_before date not null,
  made_at timestamptz not null default clock_timestamp(),
  primary key (parent, starts_on)
);

create index partition_span_made_idx on ledger.partition_span (made_at);

create function ledger.partition_start(day date) returns date
  language sql immutable strict parallel safe
  return case
    when day >= date '2020-01-01' and day < date '2050-01-01' then date_trunc('month', day::timestamp)::date
    else date_trunc('year', day::timestamp)::date
  end;

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

revoke execute on function ledger.make_partition(text, date) from public;

-- Wait until this session can insert into partitions that others have just made.
-- A commit is visible a moment before it tells other sessions that their picture of a table is old; whoever saw the
-- row in partition_span in that moment would insert and find no partition. The maker's lock is released after it has
-- told, so holding it shared for an instant waits for that; taking and giving back a table lock then listens.
create function ledger.await_partitions() returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (
    select from ledger.partition_span p where p.made_at > clock_timestamp() - interval '10 seconds'
  ) then
    return false;
  end if;
  for attempt in 1..200 loop  -- at most a second: a maker that stays open has shown us nothing yet
    if pg_try_advisory_lock_shared(hashtextextended('ledger.partition', 0)) then
      perform pg_advisory_unlock_shared(hashtextextended('ledger.partition', 0));
      exit;
    end if;
    perform pg_sleep(0.005);
  end loop;
  begin
    lock table ledger.partition_span in row share mode;
    raise exception using errcode = 'DL004';
  exception when sqlstate 'DL004' then
    return true;
  end;
end $$;

revoke execute on function ledger.await_partitions() from public;

-- Make every partition from a month before now to `ahead` after it. What is partitioned by when it happened needs no
-- more than two months: each partition costs every statement that looks a fence or a run up by its number.
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
      select from ledger.partition_span p
      where p.parent = parent.parent and p.starts_on = ledger.partition_start(month.month::date))
    and ledger.make_partition(parent.parent, month.month::date);
$$;

revoke execute on function ledger.make_partitions(interval) from public;
