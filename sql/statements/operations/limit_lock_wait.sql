-- Limit the lock waits of this transaction; 0 means no limit.
-- returns: one
-- roles: operator
-- $1 seconds double precision
-- index: none
-- locks: none
select set_config('lock_timeout', round($1::double precision * 1000)::text, true) as limited
