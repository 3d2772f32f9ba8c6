-- List the flows that are not paused and have rows available within a horizon, and how soon, except some, by loose index scans.
-- returns: zero or more
-- roles: allocator, pull_worker, worker
-- $1 limit integer
-- $2 kinds text[]
-- $3 horizon_seconds double precision
-- $4 overlap_seconds double precision
-- $5 without integer[]
-- index: pending_available_idx, pending_retry_idx, pending_serial_idx
-- locks: none
with recursive firsts (flow_no, at, block) as (
  (select p.flow_no, p.available_at, p.item_no >> 10
   from ledger.pending p
   where p.state = 1 /* Scheduled */ and p.serial is null
   order by p.flow_no, p.available_at, p.item_no >> 10 limit 1)
  union all
  select n.*
  from firsts w
  cross join lateral (
    select p.flow_no, p.available_at, p.item_no >> 10
    from ledger.pending p
    where p.state = 1 /* Scheduled */ and p.serial is null and p.flow_no > w.flow_no
    order by p.flow_no, p.available_at, p.item_no >> 10 limit 1
  ) n
),
retries (flow_no, at) as (
  (select p.flow_no, p.available_at
   from ledger.pending p
   where p.state = 4 /* RetryableFailure */ and p.serial is null
   order by p.flow_no, p.available_at limit 1)
  union all
  select n.*
  from retries w
  cross join lateral (
    select p.flow_no, p.available_at
    from ledger.pending p
    where p.state = 4 /* RetryableFailure */ and p.serial is null and p.flow_no > w.flow_no
    order by p.flow_no, p.available_at limit 1
  ) n
),
serials (flow_no, state, at) as (
  (select p.flow_no, p.state, p.available_at
   from ledger.pending p
   where p.serial is not null
   order by p.flow_no, p.state, p.available_at limit 1)
  union all
  select n.*
  from serials w
  cross join lateral (
    select p.flow_no, p.state, p.available_at
    from ledger.pending p
    where p.serial is not null and (p.flow_no, p.state) > (w.flow_no, w.state)
    order by p.flow_no, p.state, p.available_at limit 1
  ) n
),
clock as materialized (
  select ledger.now() as now, ledger.now() + make_interval(secs => $3::double precision * ledger.clock_rate()) as until,
    ledger.now() - make_interval(secs => $4::double precision * ledger.clock_rate()) as settled, ledger.clock_rate() as rate
),
waiting as materialized (
  select w.flow_no, min(w.at) as at, bool_or(not w.serial) as plain, bool_or(w.serial) as serial,
    min(w.at) filter (where w.first) as first_at, min(w.block) as block,
    min(w.at) filter (where not w.first and not w.serial) as retry_at, min(w.at) filter (where w.serial) as serial_at
  from (
    select f.flow_no, f.at, false as serial, true as first, f.block from firsts f
    union all
    select r.flow_no, r.at, false, false, null from retries r
    union all
    select s.flow_no, s.at, true, false, null from serials s
  ) w
  where w.at <= (select c.until from clock c) and w.flow_no not in (select unnest($5::integer[]))
  group by w.flow_no
)
select f.flow_no, k.tenant, k.name as kind, f.lane, k.topic, f.weight, k.queue_seconds, k.dispatch_seconds,
  k.run_seconds, k.lease_seconds, k.compression, k.settled_by = 'topic' as settled_by_topic,
  f.limited or k.settled_by = 'topic' as limited,
  k.settled_by = 'topic' or num_nonnulls(f.concurrency_max, f.window_items, f.circuit_failure_ratio) > 0 as counted,
  w.plain, w.serial, f.rate_per_second,
  date_part('epoch', w.at - c.now) / c.rate as due_seconds,
  least(w.first_at, c.settled) as floor_at,
  case when w.first_at <= c.settled then w.block else 0 end as floor_block,
  least(w.retry_at, c.settled) as retry_floor_at, least(w.serial_at, c.settled) as serial_floor_at,
  f.lag_target_seconds
from clock c
cross join waiting w
-- Look-ups, not joins: a plan made for few flows would compare each flow with each of those that wait.
cross join lateral (
  select f.* from ledger.flow f where f.flow_no = w.flow_no and f.paused_at is null offset 0
) f
cross join lateral (
  select k.* from ledger.kind k
  where k.kind_no = f.kind_no
    and case when $2::text[] is null then k.dispatch <> 'direct' else k.name = any ($2::text[]) end
  offset 0
) k
order by f.flow_no
limit $1::integer
