-- Take or keep a task that one process does at a time; null while another process has it.
-- returns: one
-- roles: alerter, service, upkeep
-- $1 task text
-- $2 holder text
-- $3 seconds double precision
-- index: none
-- locks: leader row (for update)
select ledger.take_lead($1::text, $2::text, $3::double precision) as term
