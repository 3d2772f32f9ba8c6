-- End the pauses whose own end has come. Their flows are resumed by `reapply_pauses`.
-- returns: zero or more, one a pause that ended
-- roles: upkeep
-- $1 limit integer
-- index: none
-- locks: pause rows (for update, pause_no ascending, skip locked)
with over as materialized (
  select p.pause_no
  from ledger.pause p
  where p.resumed_at is null and p.paused_until <= ledger.now()
  order by p.pause_no limit $1::integer
  for update skip locked
)
update ledger.pause p
set resumed_at = ledger.now()
from over o
where p.pause_no = o.pause_no and p.resumed_at is null
returning p.tenant, p.kind, p.lane, p.paused_until
