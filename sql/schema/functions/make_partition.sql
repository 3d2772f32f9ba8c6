create function ledger.fits_one_move(first_day date, next_day date, rows_max integer) returns boolean
  language sql stable set search_path = pg_catalog, pg_temp
as $$
  select rows_max is null or pg_relation_size('ledger.due_item_default') + pg_relation_size('ledger.transition_default') <= 33554432
    and (
      select count(*) <= rows_max
      from (
        select from ledger.due_item_default d
        where d.effective_date >= first_day and d.effective_date < next_day limit rows_max + 1
      ) i)
    and (
      select count(*) <= rows_max / 10 and coalesce(sum(pg_column_size(t.detail)), 0) <= 2097152
      from (
        select d.detail from ledger.transition_default d
        where d.effective_date >= first_day and d.effective_date < next_day limit rows_max / 10 + 1
      ) t);
$$;

comment on function ledger.fits_one_move is
  'Whether the default partitions are small enough, and have few enough rows of these days, to make a partition while '
  'others wait.';

-- Attaching a partition reads the default one under a lock that excludes everybody. So all of this is one statement that
-- commits by itself; it copies the items before it takes that lock, waits for 25 ms at most for each lock, has it for
-- 30 ms or less with 10,000 items or 1,000 transitions, and otherwise gives up until it is called again.
create function ledger.make_partition(parent text, day date, rows_max integer default 10000) returns boolean
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '25ms' set enable_seqscan = on
  set enable_hashjoin = on set plan_cache_mode = force_custom_plan
as $$
declare
  first_day date := ledger.partition_start(day);
  next_day date := ledger.partition_end(day);
  is_retired boolean := parent = 'due_item' and exists (
    select from ledger.retired_key r where r.id >= ledger.least_id(first_day) and r.id < ledger.least_id(next_day));
  suffix text := ledger.partition_name('', day) || case when is_retired then '_again' else '' end;
  tables text[] := case parent when 'due_item' then array['due_item', 'transition'] else array[parent] end;
  name text;
  copied tid[];
  fresh bigint[];
begin
  if parent not in ('due_item', 'event', 'claim', 'run')
    or day is null or day < date '1970-01-01' or day >= date '2200-01-01' then
    raise exception using errcode = 'DL003', message = format('no partition of %s holds %s', parent, day);
  end if;
  if parent <> 'due_item' or rows_max is null then
    perform set_config('lock_timeout', '10s', true);
  end if;
  -- One maker at a time; nobody but the ledger's owner may lock this table so.
  lock table ledger.partition_span in share row exclusive mode;
  if exists (
    select from ledger.partition_span p
    where p.parent = make_partition.parent and p.starts_on = first_day and p.leaf is not null
  ) then
    return false;
  end if;
  if parent = 'due_item' and not ledger.fits_one_move(first_day, next_day, rows_max) then
    insert into ledger.partition_span (parent, starts_on, ends_before)
    values (make_partition.parent, first_day, next_day)
    on conflict do nothing;
    return false;
  end if;

  foreach name in array tables loop
    execute format('create table ledger.%I (like ledger.%I including all excluding identity)', name || suffix, name);
  end loop;
  if parent in ('claim', 'run') then
    execute format(
      'alter table ledger.%I set (fillfactor = 70, autovacuum_vacuum_scale_factor = 0,'
      ' autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0)', parent || suffix);
  end if;
  if parent = 'due_item' then
    execute format(
      'with copy as (insert into ledger.%I'
      '  select * from ledger.due_item_default where effective_date >= $1 and effective_date < $2)'
      ' select coalesce(array_agg(ctid), %L) from ledger.due_item_default'
      ' where effective_date >= $1 and effective_date < $2', 'due_item' || suffix, '{}')
    into copied using first_day, next_day;

    lock table only ledger.due_item, only ledger.transition in share update exclusive mode;
    lock table ledger.due_item_default, ledger.transition_default in access exclusive mode;
    -- Rows that were emitted or changed since they were copied have another place in the table.
    select array_agg(d.item_no) into fresh from ledger.due_item_default d
    where d.effective_date >= first_day and d.effective_date < next_day
      and not exists (select from unnest(copied) c (tid) where c.tid = d.ctid);
    if cardinality(fresh) > rows_max / 10 or not ledger.fits_one_move(first_day, next_day, rows_max) then
      raise lock_not_available;
    end if;
    execute format('delete from ledger.%I where item_no = any ($1)', 'due_item' || suffix) using fresh;
    execute format(
      'insert into ledger.%I select * from ledger.due_item_default'
      ' where effective_date >= $1 and effective_date < $2 and item_no = any ($3)', 'due_item' || suffix)
    using first_day, next_day, fresh;
    delete from ledger.due_item_default d where d.effective_date >= first_day and d.effective_date < next_day;
    execute format(
      'with moved as ('
      '  delete from ledger.transition_default where effective_date >= $1 and effective_date < $2 returning *)'
      ' insert into ledger.%I select * from moved', 'transition' || suffix)
    using first_day, next_day;
  end if;
  foreach name in array tables loop
    execute format(
      'alter table ledger.%I attach partition ledger.%I for values from (%L) to (%L)',
      name, name || suffix, first_day, next_day);
  end loop;
  insert into ledger.partition_span as p (parent, starts_on, ends_before, leaf, has_retired)
  values (
    make_partition.parent, first_day, next_day, format('ledger.%I', parent || suffix)::regclass, is_retired)
  on conflict on constraint partition_span_pkey do update
  set leaf = excluded.leaf, made_at = excluded.made_at, has_retired = excluded.has_retired;
  return true;
exception when lock_not_available then
  if parent <> 'due_item' or rows_max is null then
    raise;
  end if;
  return false;
end $$;

comment on function ledger.make_partition is
  'Make the table partition that holds a date, for due_item that of transition too, and move the rows that the default '
  'partitions have for it. False where it exists, or where it cannot be made now: somebody holds a default partition, '
  'or it has more than `rows_max` rows to move. Without `rows_max` it moves all, and everybody else waits.';
revoke execute on function ledger.make_partition from public;
