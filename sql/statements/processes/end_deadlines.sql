-- End the deadlines of claims that were not published, of processes whose lock has been missing for four seconds.
-- returns: zero or more
-- roles: upkeep
-- $1 process_nos bigint[]
-- $2 limit integer
-- index: claim_deadline_idx
-- locks: claim rows (for update, skip locked)
-- Nobody works them: a record that reaches Kafka later is of a closed claim, and a start of it is refused.
with dead as materialized (
  select p.process_no
  from ledger.process p
  join ledger.process_status s on s.process_no = p.process_no
  where p.process_no = any ($1::bigint[]) and s.status = 'gone'
    and p.locked_on = pg_postmaster_start_time() and p.unlocked_at <= ledger.machine_now() - interval '4 seconds'
),
open as materialized (
  select c.fence, c.claimed_at
  from ledger.claim c
  join dead d on d.process_no = c.allocator_no
  where c.closed_at is null and c.published_at is null and c.deadline > ledger.machine_now()
  order by c.deadline
  limit $2::integer
  for update of c skip locked
)
update ledger.claim c
set deadline = ledger.machine_now()
from open o
where c.fence = o.fence and c.claimed_at = o.claimed_at and c.closed_at is null and c.published_at is null
returning c.fence
