-- Lock the pages of one version in a tz change that are not applied.
-- returns: zero or more, one a page
-- roles: operator
-- $1 change_no bigint
-- $2 definition_no bigint
-- index: none
-- locks: tz_change_version rows (for update, page ascending)
select v.page
from ledger.tz_change_version v
where v.change_no = $1::bigint and v.definition_no = $2::bigint and v.applied_at is null
order by v.page
for update
