-- List the partitions with which live workers get no further, those that wait longest first.
-- returns: zero or more
-- roles: auditor, operator
-- index: none
-- locks: none
select s.topic, s.partition, s.next_offset, s.waits_for_handlers, s.stalled_at, a.name as worker
from ledger.stalled_partition s
join ledger.actor a on a.actor_no = s.worker_no
where exists (select from ledger.credit g where g.worker_no = s.worker_no and g.granted_until > ledger.machine_now())
order by s.stalled_at
limit 1000
