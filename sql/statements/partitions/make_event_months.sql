-- Make the inbox partitions that these months need, and wait until this session can insert into them.
-- returns: one
-- $1 months date[]
-- index: none
-- locks: the event table (share update exclusive) where a partition is missing
with made as materialized (
  select count(*) filter (where ledger.make_partition('event', u.month))::integer as made
  from unnest($1::date[]) u (month)
  where not exists (
    select from ledger.partition_span p where p.parent = 'event' and p.starts_on = ledger.partition_start(u.month))
)
select m.made, ledger.await_partitions() as awaited from made m
