-- List marks that change with PostgreSQL's counters of changes: one for each range of dates of items and transitions, one for open items.
-- The range of open items (pending, reviews, claims, runs) is null. Tables whose changes are not counted are not listed.
-- returns: zero or more
-- roles: reconciler
-- index: none
-- locks: none
with counted as (
  select h.inhrelid as oid, h.inhparent in ('ledger.due_item'::regclass, 'ledger.transition'::regclass) as dated,
    not h.inhdetachpending as attached
  from pg_catalog.pg_inherits h
  where h.inhparent in (
    'ledger.due_item'::regclass, 'ledger.transition'::regclass, 'ledger.claim'::regclass, 'ledger.run'::regclass)
  union all
  select oid, false, true
  from unnest(array['ledger.pending'::regclass, 'ledger.review'::regclass]) oid
),
marked as (
  select t.dated, t.attached and c.relkind = 'r' as certain,
    case when t.dated then
      regexp_match(pg_get_expr(c.relpartbound, c.oid), $$^FOR VALUES FROM \('([0-9-]+)'\) TO \('([0-9-]+)'\)$$)
    end as bounds,
    concat_ws(
      '/', c.oid, c.relfilenode, pg_stat_get_tuples_inserted(c.oid), pg_stat_get_tuples_updated(c.oid),
      pg_stat_get_tuples_deleted(c.oid)) as mark
  from counted t join pg_catalog.pg_class c on c.oid = t.oid
),
counting as (
  select concat_ws(
    '/', extract(epoch from pg_postmaster_start_time()), extract(epoch from b.stats_reset),
    extract(epoch from d.stats_reset), d.datid) as since
  from pg_catalog.pg_stat_bgwriter b left join pg_catalog.pg_stat_database d on d.datname = current_database()
)
select m.bounds[1]::date as from_date, m.bounds[2]::date as to_date,
  concat_ws(' ', s.since, string_agg(m.mark, ' ' order by m.mark)) as mark
from marked m cross join counting s
where (m.bounds is not null or not m.dated) and current_setting('track_counts')::boolean
group by m.bounds, s.since
having bool_and(m.certain)
order by 1
