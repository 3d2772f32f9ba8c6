-- List open claims of another size than their items, that have nothing left to start, or whose deadline is later than one can be, up to a limit.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 limit integer
-- index: claim_deadline_idx
-- locks: none
select c.fence, c.size, cardinality(c.item_no) as items, c.started, c.deadline,
  case when c.size <> cardinality(c.item_no) then 'size' when c.started >= c.size then 'started' else 'deadline' end as fault
from ledger.claim c
where c.closed_at is null and c.deadline > '-infinity' and (
  c.size <> cardinality(c.item_no)
  -- One whose deadline has passed is stuck anyway.
  or c.started >= c.size and c.deadline >= ledger.machine_now()
  -- A policy with shorter deadlines may have been put since it was made.
  or c.deadline > ledger.machine_now() + interval '1 hour'
    + make_interval(secs => greatest(c.queue_seconds, (select max(k.dispatch_seconds) from ledger.kind k))))
order by c.deadline
limit $1::integer
