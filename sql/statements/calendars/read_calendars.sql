-- Read versions of calendars with their days.
-- returns: zero or more
-- roles: auditor, intake, materialiser, operator, reconciler
-- $1 calendar_nos bigint[]
-- index: calendar_pkey
-- locks: none
select c.calendar_no, c.tenant, c.name, c.version, c.document, c.valid_to, c.source, c.created_at
from unnest($1::bigint[]) asked (calendar_no)
join ledger.calendar c on c.calendar_no = asked.calendar_no
