-- Read what a measurement must say of its server: version, what makes a commit durable, and its clock.
-- returns: one
-- roles: owner
-- index: none
-- locks: none
select pg_catalog.current_setting('server_version') as version,
  pg_catalog.current_setting('fsync') as fsync,
  pg_catalog.current_setting('synchronous_commit') as synchronous_commit,
  pg_catalog.current_setting('full_page_writes') as full_page_writes,
  pg_catalog.clock_timestamp() as now
