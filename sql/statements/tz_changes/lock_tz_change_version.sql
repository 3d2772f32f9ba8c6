-- Hold one version in a change by a tz database that is not applied yet, until the transaction ends.
-- returns: zero or one
-- $1 change_no bigint
-- $2 definition_no bigint
-- index: none
-- locks: zone_change_part row (for update)
select p.definition_no
from ledger.zone_change_part p
where p.change_no = $1::bigint and p.definition_no = $2::bigint and p.applied_at is null
for update
