-- Tables partitioned by when something happened need two months at most: each partition costs every statement that
-- finds a fence or a run by its number.
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

comment on function ledger.make_partitions is
  'Make every table partition from a month before now to `ahead` after it; returns how many.';
