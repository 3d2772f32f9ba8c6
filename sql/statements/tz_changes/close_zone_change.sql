-- Close a change by a tz database of which every part is applied.
-- returns: zero or one
-- $1 change_no bigint
-- index: none
-- locks: zone_change row (for update)
update ledger.zone_change c
set closed_at = ledger.now()
where c.change_no = $1::bigint and c.closed_at is null
  and not exists (select from ledger.zone_change_part p where p.change_no = c.change_no and p.applied_at is null)
returning c.change_no
