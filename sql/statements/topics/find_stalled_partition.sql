-- Find the partition of an open claim, if a live worker that has it is stalled there.
-- returns: zero or one
-- roles: auditor, operator
-- $1 fence bigint
-- index: claim_deadline_idx, stalled_partition_pkey
-- locks: none
select c.topic, c.partition, s.next_offset, s.waits_for_handlers, s.stalled_at
from ledger.claim c
join ledger.stalled_partition s on s.topic = c.topic and s.partition = c.partition
where c.fence = $1::bigint and c.closed_at is null
  and (select max(g.granted_until) from ledger.credit g where g.worker_no = s.worker_no) > ledger.machine_now()
order by s.stalled_at
limit 1
