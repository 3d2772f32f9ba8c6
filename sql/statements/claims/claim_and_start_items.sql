-- Claim due items and start them at once (Scheduled, RetryableFailure to Running): one claim and one run per group of flows.
-- returns: one or more, first one row about the flows, then one a run
-- roles: allocator, pull_worker
-- $1 flow_nos integer[]
-- $2 quotas integer[]
-- $3 group_nos integer[]
-- $4 apart boolean[]
-- $5 floor_ats timestamptz[]
-- $6 floor_blocks bigint[]
-- $7 limited boolean
-- $8 suspects boolean
-- $9 worker_no bigint
-- $10 lease_seconds double precision
-- $11 retry_floor_ats timestamptz[]
-- $12 run_seconds double precision[]
-- $13 isolated_in text
-- $14 with_token boolean
-- $15 tenants text[]
-- $16 bytes_max bigint
-- $17 lag_flow_nos integer[]
-- index: pending_available_idx, pending_retry_idx, withdrawal_pkey
-- locks: pending rows (for update, skip locked)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select q.*, f.retry_share, f.lag_target_seconds, case when f.limited then f.flow_no end as limited_flow_no,
    exists (
      select from ledger.pending p
      where p.flow_no = q.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
        and p.available_at <= ledger.now() and p.available_at >= q.retry_floor_at) as has_retries
  from unnest($1::integer[], $2::integer[], $3::integer[], $4::boolean[], $5::timestamptz[], $6::bigint[], $11::timestamptz[],
      $12::double precision[])
    q (flow_no, quota, group_no, apart, floor_at, floor_block, retry_floor_at, run_seconds)
  join ledger.flow f on f.flow_no = q.flow_no and f.paused_at is null
  -- A flow that was limited after it was listed is skipped until it is locked and measured.
  where (not f.limited or $7::boolean)
    and ($15::text[] is null or f.tenant = any ($15::text[]))
),
-- As in claim_items, but suspects, whose worker died with them, are claimed by themselves, fewer each time, or not at all.
firsts as materialized (
  select a.*, l.*
  from asked a
  cross join lateral (
    select count(*)::integer as seen, min(x.batch_max) as batch_max,
      min(x.available_at) as first_at, max(x.available_at) as last_at, max(x.block) as last_block,
      array_agg(x.tid) filter (where (x.batch_max is not null) = $8::boolean) as tids
    from (
      select p.ctid as tid, p.batch_max, p.available_at, p.item_no >> 10 as block
      from ledger.pending p
      where p.flow_no = a.flow_no and p.state = 1 /* Scheduled */ and p.serial is null
        and p.available_at <= ledger.now() and (p.available_at, p.item_no >> 10) >= (a.floor_at, a.floor_block)
      order by p.available_at, p.item_no >> 10
      limit a.quota - case when a.has_retries then floor(a.quota * a.retry_share + random())::integer else 0 end
      for update skip locked
    ) x
  ) l
),
retries as materialized (
  select f.flow_no, l.*
  from firsts f
  cross join lateral (
    select count(*)::integer as seen, min(x.batch_max) as batch_max,
      array_agg(x.tid) filter (where (x.batch_max is not null) = $8::boolean) as tids
    from (
      select p.ctid as tid, p.batch_max
      from ledger.pending p
      where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
        and p.available_at <= ledger.now() and p.available_at >= f.retry_floor_at
      order by p.available_at
      limit f.quota - f.seen
      for update skip locked
    ) x
  ) l
  where f.has_retries
),
chosen as materialized (
  select f.batch_max, f.tids from firsts f where f.tids is not null
  union all
  select r.batch_max, r.tids from retries r where r.tids is not null
  limit case when $8::boolean then 1 end
),
-- With a bound of bytes, the rows of which there are too many stay pending.
fitting as materialized (
  select case when $16::bigint is null then c.tids else ledger.fit_bytes(c.tids, $16::bigint) end as tids
  from (
    select array(select unnest(case when $8::boolean then c.tids[1:c.batch_max] else c.tids end) from chosen c) as tids
  ) c
),
removed as (
  delete from ledger.pending p
  where p.ctid = any (array(select unnest(f.tids) from fitting f))
  returning p.item_no, p.effective_date, p.attempt, p.starts
),
grouped as materialized (
  select array_agg(row(g.effective_date, g.item_nos, g.attempt, g.starts, null)::ledger.item_group) as groups
  from (
    select r.effective_date, r.attempt, r.starts, array_agg(r.item_no) as item_nos
    from removed r
    group by r.effective_date, r.attempt, r.starts
  ) g
),
found as (
  select i.attempt, i.starts, i.item_no, i.effective_date, i.flow_no, i.id, i.business_key, i.cycle,
    timestamptz_send(i.due_at) as due_at, json_send(i.payload) as payload, i.traceparent
  from grouped g
  cross join lateral ledger.find_items(g.groups) i
),
-- The fence is drawn after the rows were locked, so that an item's fences only grow.
batch as materialized (
  select nextval('ledger.fence') as fence, nextval('ledger.run_run_no_seq') as run_no, g.*,
    (select c.batch_max from chosen c where $8::boolean) as batch_max,
    (select min(a.run_seconds) from asked a where a.group_no = g.group_no) as run_seconds,
    (select min(a.limited_flow_no) from asked a where a.group_no = g.group_no) as flow_no,
    -- Of these 64 bits of a UUID all are random.
    case when $14::boolean then translate(left(g.uuid, 14) || right(g.uuid, 4), '-', '') end as token
  from (
    select ($3::integer[])[f.place] as group_no, count(*)::integer as size,
      array_agg(f.item_no) as item_no, array_agg(f.effective_date) as effective_date,
      array_agg((f.attempt + 1)::smallint) as attempt, array_agg((f.starts + 1)::smallint) as starts,
      array_agg(f.id) as ids, array_agg(f.flow_no) as flow_nos, array_agg(f.business_key) as business_keys,
      array_agg(f.cycle) as cycles, array_agg(f.due_at) as due_ats, array_agg(f.payload) as payloads,
      case when count(f.traceparent) > 0 then array_agg(f.traceparent) end as traceparents, gen_random_uuid()::text as uuid
    from (select f.*, width_bucket(f.flow_no, $1::integer[]) as place from found f) f  -- flow_nos are in ascending order
    group by 1, case when ($4::boolean[])[f.place] then f.item_no end
  ) g
),
claimed as (
  insert into ledger.claim (
    fence, claimed_at, token, allocator_no, topic, partition, size, item_no, effective_date, attempt, starts, batch_max,
    started, deadline, closed_at, run_seconds, flow_no, flow_nos, lag_flow_no, available_since)
  select b.fence, ledger.now(), b.token, $9::bigint, 'direct', -1, b.size, b.item_no, b.effective_date, b.attempt, b.starts,
    b.batch_max, b.size, ledger.machine_now(), ledger.now(), b.run_seconds, b.flow_no,
    array(select distinct u.flow_no from unnest(b.flow_nos) u (flow_no)), late.flow_no, late.first_at
  from batch b
  -- Of the flows with a lag target, the one whose first item is the first to be late.
  left join lateral (
    select f.flow_no, f.first_at
    from firsts f
    where cardinality($17::integer[]) > 0 and f.flow_no = any ($17::integer[]) and f.group_no = b.group_no and f.tids is not null
    order by f.first_at + make_interval(secs => f.lag_target_seconds) limit 1
  ) late on true
),
withdrawn as materialized (
  select b.fence, b.run_no, u.ord::integer as position, u.item_no, u.effective_date, u.attempt, w.event, w.reason,
    w.replacement, w.actor_no
  from batch b
  cross join lateral unnest(b.item_no, b.effective_date, b.attempt)
    with ordinality u (item_no, effective_date, attempt, ord)
  cross join lateral (  -- `offset 0`: otherwise a plan made while there were few rows reads all of them for each item
    select * from ledger.withdrawal w where w.item_no = u.item_no offset 0
  ) w
  where exists (select from ledger.withdrawal)
),
honoured as (
  delete from ledger.withdrawal w where w.item_no = any (array(select x.item_no from withdrawn x))
),
begun as (
  insert into ledger.run (
    run_no, started_at, fence, claimed_at, from_position, to_position, worker_no, lease_until, lease_seconds, ended, closed_at,
    flow_no, run_until, isolated_in, withdrawn)
  overriding system value
  select b.run_no, ledger.now(), b.fence, ledger.now(), 1, b.size, $9::bigint,
    ledger.machine_now() + make_interval(secs => least($10::double precision, b.run_seconds)), $10::double precision,
    m.ended, case when m.ended = ~m.blank then ledger.now() end, b.flow_no,
    ledger.machine_now() + make_interval(secs => b.run_seconds), $13::text, nullif(m.ended, m.blank)
  from batch b
  cross join lateral (
    select o.blank, coalesce((
      select bit_or(set_bit(o.blank, x.position - 1, 1)) from withdrawn x where x.fence = b.fence), o.blank) as ended
    from (select repeat('0', b.size)::bit varying as blank) o
  ) m
),
journal as (
  insert into ledger.transition (effective_date, item_no, event, attempt, run_no, actor_no, at, detail)
  select x.effective_date, x.item_no, x.event, x.attempt, x.run_no, x.actor_no, ledger.now(),
    jsonb_strip_nulls(jsonb_build_object('reason', x.reason, 'replacement', x.replacement))
  from withdrawn x
),
-- For the next claim: how many rows were seen, when more are due, and the floor.
flow as materialized (
  select f.flow_no, f.seen + coalesce(r.seen, 0) as seen, coalesce(f.batch_max, r.batch_max) is not null as has_suspects,
    case when f.seen + coalesce(r.seen, 0) < f.quota then (
      extract(epoch from least(
        (select p.available_at from ledger.pending p
         where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at > ledger.now()
         order by p.available_at limit 1),
        (select p.available_at from ledger.pending p
         where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
           and p.available_at > ledger.now()
         order by p.available_at limit 1)) - ledger.now()) / ledger.clock_rate())::double precision end as due_seconds,
    coalesce(f.last_at, f.floor_at) as floor_at,
    case when f.seen = 0 then f.floor_block when f.first_at = f.last_at then f.last_block else 0 end as floor_block
  from firsts f left join retries r on r.flow_no = f.flow_no
)
select null::bigint as run_no, null::timestamptz as started_at, null::bigint as fence, null::integer as group_no, null::double precision as lease_seconds_left,
  null::integer[] as withdrawn, null::smallint[] as attempts, null::uuid[] as ids, array_agg(f.flow_no) as flow_nos,
  null::text[] as business_keys, null::text[] as cycles, null::date[] as effective_dates,
  null::bytea[] as due_ats, null::bytea[] as payloads, null::text[] as traceparents, null::smallint as batch_max, null::text as token,
  array_agg(f.seen) as seen, array_agg(f.has_suspects) as has_suspects, array_agg(f.due_seconds) as due_seconds,
  array_agg(f.floor_at) as floor_ats, array_agg(f.floor_block) as floor_blocks
from flow f
where ledger.none_lost((select count(*) from removed), (select coalesce(sum(b.size), 0) from batch b))
union all
select b.run_no, ledger.now(), b.fence, b.group_no, least($10::double precision, b.run_seconds),
  array(select x.position from withdrawn x where x.fence = b.fence order by x.position), b.attempt, b.ids, b.flow_nos,
  b.business_keys, b.cycles, b.effective_date, b.due_ats, b.payloads, b.traceparents, b.batch_max, b.token, null, null, null, null, null
from batch b
