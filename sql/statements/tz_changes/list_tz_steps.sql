-- List the steps of one version in a tz change by time.
-- returns: zero or more
-- roles: operator
-- $1 change_no bigint
-- $2 definition_no bigint
-- index: none
-- locks: none
select s.step::text as step
from ledger.tz_change_version v
cross join lateral jsonb_array_elements(v.steps) s (step)
where v.change_no = $1::bigint and v.definition_no = $2::bigint
order by (s.step ->> 'at')::timestamptz, s.step ->> 'id'
