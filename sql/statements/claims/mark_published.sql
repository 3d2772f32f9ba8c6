-- Mark claims as acknowledged by Kafka, once each: their queue deadline begins, and a claim settled by topic is started (Claimed to Running) as one run.
-- returns: zero or more
-- roles: allocator
-- $1 fences bigint[]
-- $2 claimed_ats timestamptz[]
-- $3 base_offsets bigint[]
-- $4 first_claimed_at timestamptz
-- $5 last_claimed_at timestamptz
-- index: claim_pkey
-- locks: claim rows (for update, fence ascending)
with asked as materialized (
  select * from unnest($1::bigint[], $2::timestamptz[], $3::bigint[]) u (fence, claimed_at, base_offset) order by u.fence
),
marked as (
  update ledger.claim c
  set published_at = ledger.now(), base_offset = u.base_offset,
    deadline = case when c.closed_at is null
      then ledger.machine_now() + make_interval(secs => c.queue_seconds)
      else c.deadline end,
    started = case when c.closed_at is null and c.topic_actor_no is not null then c.size else c.started end,
    closed_at = case when c.closed_at is null and c.topic_actor_no is not null then ledger.now() else c.closed_at end
  from asked u
  where c.fence = u.fence and c.claimed_at is not distinct from u.claimed_at and c.claimed_at between $4::timestamptz and $5::timestamptz
    and c.published_at is null
  returning c.fence, c.claimed_at, c.size, c.started, c.closed_at, c.topic_actor_no, c.lease_seconds, c.run_seconds, c.flow_no, c.published_at
),
begun as (
  insert into ledger.run (
    started_at, fence, claimed_at, from_position, to_position, worker_no, lease_until, lease_seconds, ended, flow_no, run_until)
  select ledger.now(), m.fence, m.claimed_at, 1, m.size, m.topic_actor_no,
    ledger.machine_now() + make_interval(secs => least(m.lease_seconds, m.run_seconds)), m.lease_seconds, repeat('0', m.size)::bit varying,
    m.flow_no, ledger.machine_now() + make_interval(secs => m.run_seconds)
  from marked m
  where m.started = m.size and m.closed_at = m.published_at
    -- A claim that was started before is closed by the statement that starts its last run, so both have the same time.
    and not exists (select from ledger.run r where r.fence = m.fence and r.started_at = ledger.now())
)
select m.fence, (m.closed_at is not null and m.started < m.size) as closed
-- A mark that a crash loses has the same effect as none, so its commit need not wait for the disk.
from set_config('synchronous_commit', 'off', true), marked m
