-- Count the rows that were written to each table of the ledger since the server counts; a partition counts for its table.
-- returns: zero or more
-- roles: service
-- index: none
-- locks: none
select coalesce(p.relname, c.relname)::text as name,
  sum(pg_stat_get_tuples_inserted(c.oid) + pg_stat_get_tuples_updated(c.oid) + pg_stat_get_tuples_deleted(c.oid))::bigint as rows
from pg_class c
left join pg_inherits h on h.inhrelid = c.oid
left join pg_class p on p.oid = h.inhparent
where c.relnamespace = 'ledger'::regnamespace and c.relkind = 'r'
group by coalesce(p.relname, c.relname)
order by coalesce(p.relname, c.relname)
