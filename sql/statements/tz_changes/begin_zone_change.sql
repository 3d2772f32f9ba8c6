-- Begin to draw up a change by a tz database; its digest is set in the same transaction.
-- returns: one
-- $1 tzdata text
-- $2 from_at timestamptz
-- $3 actor_no integer
-- index: none
-- locks: none (the caller holds the changes)
insert into ledger.zone_change as c (change_no, tzdata, from_at, opened_at, actor_no)
select coalesce(max(z.change_no), 0) + 1, $1::text, $2::timestamptz, ledger.now(), $3::integer
from ledger.zone_change z
returning c.change_no
