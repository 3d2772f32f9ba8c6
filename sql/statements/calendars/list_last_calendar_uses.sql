-- List the calendar with which each definition was expanded last.
-- returns: zero or more
-- roles: materialiser
-- $1 definition_nos bigint[]
-- index: calendar_use_pkey
-- locks: none
select u.definition_no, u.from_at, u.calendar_no
from unnest($1::bigint[]) asked (definition_no)
cross join lateral (
  select l.definition_no, l.from_at, l.calendar_no
  from ledger.calendar_use l where l.definition_no = asked.definition_no order by l.from_at desc limit 1
) u
