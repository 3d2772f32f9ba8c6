-- Set the digest of a change that was drawn up, and name the tz databases that had placed what it changes.
-- returns: zero or one
-- $1 change_no bigint
-- $2 digest text
-- index: none
-- locks: zone_change row (for update)
update ledger.zone_change c
set digest = $2::text, tzdata_before = array(
  select distinct s.tzdata_before from ledger.zone_change_step s
  where s.change_no = $1::bigint and s.tzdata_before is not null order by 1)
where c.change_no = $1::bigint and c.digest is null
returning c.change_no
