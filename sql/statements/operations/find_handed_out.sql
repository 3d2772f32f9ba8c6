-- Find where an item that is handed out is: its claim and run, who made and has them, what lies before it, and who could read it.
-- returns: zero or one
-- roles: auditor, operator
-- $1 fence bigint
-- $2 claimed_at timestamptz
-- $3 position integer
-- $4 run_no bigint
-- $5 started_at timestamptz
-- index: claim_pkey, run_pkey, claim_deadline_idx, stalled_partition_pkey, credit_worker_idx
-- locks: none
select c.topic, c.partition, c.base_offset + $3::integer - 1 as "offset", c.claimed_at, c.published_at, c.deadline,
  c.deadline <= ledger.machine_now() as is_past_deadline, c.batch_max is not null as is_suspect,
  c.topic_actor_no is not null as is_settled_by_topic,
  claimer.name as claimer, claimer.host as claimer_host, claimer.status as claimer_status, claimer.seen_at as claimer_seen_at,
  r.started_at, r.lease_until, r.lease_until <= ledger.machine_now() as is_past_lease,
  runner.name as worker, runner.host as worker_host,
  case
    when runner.status = 'gone' and runner.seen_at > ledger.machine_now() - interval '8 seconds' then 'live'  -- it may come back
    else runner.status
  end as worker_status, runner.seen_at as worker_seen_at,
  stalled.stalled_at, stalled.next_offset, stalled.waits_for_handlers,
  (select count(*) from ledger.credit g where g.topic = c.topic and g.granted_until > ledger.machine_now()) as readers,
  greatest(0, $3::integer - 1 - c.started) + (
    select coalesce(sum(o.size - o.started), 0)::bigint from ledger.claim o
    where o.closed_at is null and o.topic = c.topic and o.partition = c.partition and o.base_offset < c.base_offset
  ) as before
from ledger.claim c
left join ledger.run r on r.run_no = $4::bigint and r.started_at = $5::timestamptz
left join ledger.process_status claimer on claimer.process_no = c.allocator_no
left join ledger.process_status runner on runner.process_no = r.worker_no
left join lateral (
  select s.next_offset, s.waits_for_handlers, s.stalled_at
  from ledger.stalled_partition s
  where s.topic = c.topic and s.partition = c.partition
    and (select max(g.granted_until) from ledger.credit g where g.worker_no = s.worker_no) > ledger.machine_now()
  order by s.stalled_at
  limit 1
) stalled on true
where c.fence = $1::bigint and c.claimed_at = $2::timestamptz
