-- List the server's processes for the connections of a program, by the beginning of its name.
-- returns: zero or more
-- roles: owner
-- $1 application text
-- index: none
-- locks: none
select a.pid
from pg_catalog.pg_stat_activity a
where a.datname = current_database() and starts_with(a.application_name, $1::text)
