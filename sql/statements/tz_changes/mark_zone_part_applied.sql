-- Record that one version in a change by a tz database is applied, or was overtaken by another version.
-- returns: zero or one
-- $1 change_no bigint
-- $2 definition_no bigint
-- $3 items integer
-- $4 overtaken boolean
-- index: none
-- locks: zone_change_part row (for update)
update ledger.zone_change_part p
set applied_at = ledger.now(), items = $3::integer, overtaken = $4::boolean
where p.change_no = $1::bigint and p.definition_no = $2::bigint and p.applied_at is null
returning p.definition_no
