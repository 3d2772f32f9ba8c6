-- Start claim slices (Claimed to Running) as start_runs does, where no item of theirs is withdrawn and their partition has no backoff.
-- returns: zero or more, one a run in the order of positions; none for a slice of which nothing was changed
-- roles: pull_worker, worker
-- $1 fences bigint[]
-- $2 claimed_ats timestamptz[]
-- $3 tokens text[]
-- $4 from_positions integer[]
-- $5 to_positions integer[]
-- $6 run_items_max integer[]
-- $7 worker_no bigint
-- $8 lease_seconds double precision
-- $9 first_claimed_at timestamptz
-- $10 last_claimed_at timestamptz
-- $11 isolations text[]
-- index: claim_pkey, withdrawal_pkey
-- locks: claim rows (for update, in the order given)
with asked as materialized (
  select * from unnest($1::bigint[], $2::timestamptz[], $3::text[], $4::integer[], $5::integer[], $6::integer[], $11::text[])
    with ordinality a (fence, claimed_at, token, from_position, to_position, run_items_max, isolated_in, ord)
),
opened as (
  update ledger.claim c
  set started = a.to_position,
    closed_at = case when a.to_position = c.size then ledger.now() end
  from asked a
  where c.fence = a.fence and c.claimed_at is not distinct from a.claimed_at and c.claimed_at between $9::timestamptz and $10::timestamptz
    and c.token = a.token and c.closed_at is null and c.started = a.from_position - 1
    and a.to_position between a.from_position and c.size
    -- A claim settled by topic belongs to its holder, a direct claim (partition -1) to the worker that made it.
    and c.topic_actor_no is null and (c.partition >= 0 or c.allocator_no = $7::bigint)
    and not exists (select from ledger.partition_backoff b where b.topic = c.topic and b.partition = c.partition)
    and not (exists (select from ledger.withdrawal) and exists (
      select from unnest(c.item_no[a.from_position:a.to_position]) u (item_no)
      cross join lateral (  -- `offset 0`: otherwise a plan made while there were few rows reads all of them for each item
        select from ledger.withdrawal w where w.item_no = u.item_no offset 0
      ) w))
  returning c.fence, c.claimed_at, c.flow_no, c.run_seconds, a.from_position, a.to_position, a.run_items_max, a.isolated_in
)
insert into ledger.run as b (
  started_at, fence, claimed_at, from_position, to_position, worker_no, lease_until, lease_seconds, ended,
  flow_no, run_until, isolated_in)
select ledger.now(), o.fence, o.claimed_at, p, least(p + o.run_items_max - 1, o.to_position), $7::bigint,
  ledger.machine_now() + make_interval(secs => least($8::double precision, o.run_seconds)), $8::double precision,
  repeat('0', least(o.run_items_max, o.to_position - p + 1))::bit varying, o.flow_no,
  ledger.machine_now() + make_interval(secs => o.run_seconds), o.isolated_in
from opened o
cross join lateral generate_series(o.from_position, o.to_position, o.run_items_max) p
order by o.fence, p
returning b.run_no, b.started_at, b.fence, b.from_position, b.to_position,
  extract(epoch from b.lease_until - ledger.machine_now())::double precision as lease_seconds_left
