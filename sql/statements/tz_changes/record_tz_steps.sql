-- Record some steps of one version in a tz change as its next page, or why it cannot be expanded.
-- returns: one
-- roles: operator
-- $1 change_no bigint
-- $2 definition_no bigint
-- $3 superseded_at timestamptz
-- $4 failure text
-- $5 steps text
-- index: none
-- locks: none (the caller has locked the changes)
insert into ledger.tz_change_version as v (change_no, definition_no, page, superseded_at, failure, steps)
select $1::bigint, $2::bigint, count(*)::integer, $3::timestamptz, $4::text, $5::text::jsonb
from ledger.tz_change_version v
where v.change_no = $1::bigint and v.definition_no = $2::bigint
returning v.page
