-- Read a value that changes whenever event rules or calendars change: how many are in force, the newest of all, and calendars.
-- returns: one
-- roles: intake
-- index: none
-- locks: none
select count(*) filter (where d.effective_from <= ledger.now()) as in_force, max(d.definition_no) as newest,
  (select count(*) from ledger.calendar) as calendars
from ledger.definition d
where d.event_type is not null
