-- Let this transaction wait so long for a lock and no longer; 0 is for ever.
-- returns: one
-- $1 seconds double precision
-- index: none
-- locks: none
select set_config('lock_timeout', round($1::double precision * 1000)::text, true) as limited
