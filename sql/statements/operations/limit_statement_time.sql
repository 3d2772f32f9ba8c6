-- Limit the time of each further statement of this transaction; 0 means no limit.
-- returns: one
-- roles: service
-- $1 seconds double precision
-- index: none
-- locks: none
select set_config('statement_timeout', round($1::double precision * 1000)::text, true) as limited
