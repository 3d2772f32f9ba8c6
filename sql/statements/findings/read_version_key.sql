-- Read what versions of rows depend on beside the rows: when the server was started, which columns and partitions the tables have, and the oldest transaction that runs.
-- returns: one
-- roles: auditor, reconciler
-- index: none
-- locks: none
select pg_postmaster_start_time() as started_at, pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest_running,
  (select array_agg(h.inhrelid::bigint) from pg_catalog.pg_inherits h
   where h.inhparent in ('ledger.due_item'::regclass, 'ledger.transition'::regclass, 'ledger.event'::regclass)) as partitions,
  -- A column that is added with a default changes what all rows say, and writes none.
  array_agg(concat_ws('/', a.attrelid, a.attnum, a.attname, a.attmissingval) order by a.attrelid, a.attnum) as columns
from pg_catalog.pg_attribute a
where a.attrelid in ('ledger.due_item'::regclass, 'ledger.transition'::regclass, 'ledger.event'::regclass) and a.attnum > 0
