-- Record that one version in a tz change is applied, or was superseded by another version.
-- returns: zero or more, one a page
-- roles: operator
-- $1 change_no bigint
-- $2 definition_no bigint
-- $3 items integer
-- $4 superseded boolean
-- index: none
-- locks: tz_change_version rows (for update)
update ledger.tz_change_version v
set applied_at = ledger.now(), items = $3::integer, superseded = $4::boolean
where v.change_no = $1::bigint and v.definition_no = $2::bigint and v.applied_at is null
returning v.page
