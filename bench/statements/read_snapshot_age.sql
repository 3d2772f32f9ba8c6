-- Read for how long the oldest snapshot of an application has been held, in seconds.
-- returns: one
-- roles: owner
-- $1 application text
-- index: none
-- locks: none
select coalesce(extract(epoch from max(clock_timestamp() - a.xact_start)), 0)::double precision as seconds
from pg_catalog.pg_stat_activity a
where a.application_name = $1::text and a.backend_xmin is not null
