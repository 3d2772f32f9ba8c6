-- List the calendars with which these definitions, or all if none are given, were expanded and from when on, by definition and time.
-- returns: zero or more
-- roles: auditor, operator, reconciler
-- $1 definition_nos bigint[]
-- $2 after_definition_no bigint
-- $3 after_from_at timestamptz
-- $4 limit integer
-- index: calendar_use_pkey
-- locks: none
select u.definition_no, u.from_at, u.calendar_no
from ledger.calendar_use u
where ($1::bigint[] is null or u.definition_no = any ($1::bigint[]))
  and (u.definition_no, u.from_at) > ($2::bigint, $3::timestamptz)
order by u.definition_no, u.from_at
limit $4::integer
