-- List stale and illegal writes, newest first.
-- returns: zero or more
-- roles: auditor, operator
-- $1 limit integer
-- index: rejected_write_at_idx
-- locks: none
select w.rejected_no, w.rejected_at, a.name as actor, w.verb, w.reason, w.fence, w.run_no, w.item_no, w.from_position,
  w.to_position, w.detail
from ledger.rejected_write w
join ledger.actor a on a.actor_no = w.actor_no
order by w.rejected_at desc, w.rejected_no desc
limit $1::integer
