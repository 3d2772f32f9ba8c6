-- Read how large the hot tables are, and how many dead rows they hold, partitions summed.
-- returns: zero or more
-- roles: owner
-- index: none
-- locks: none
select coalesce(parent.relname, s.relname)::text as name,
  sum(s.n_live_tup)::bigint as live_rows,
  sum(s.n_dead_tup)::bigint as dead_rows,
  sum(pg_catalog.pg_total_relation_size(s.relid))::bigint as bytes
from pg_catalog.pg_stat_user_tables s
left join pg_catalog.pg_inherits h on h.inhrelid = s.relid
left join pg_catalog.pg_class parent on parent.oid = h.inhparent
where s.schemaname = 'ledger'
  and coalesce(parent.relname, s.relname) in ('claim', 'due_item', 'pending', 'run', 'transition')
group by 1
order by 1
