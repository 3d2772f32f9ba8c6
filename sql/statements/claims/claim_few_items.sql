-- Claim a few due items and record the claims, as claim_items and record_claims do in a transaction (Scheduled, RetryableFailure to Claimed): of flows that are not limited, and not settled by topic; no suspects.
-- returns: one or more: items with their claims, by fence and position; of flows without due retries the number and as due_at when the next item is due, if within a minute; last, as item_no the number of items and as due_at the time of the claims; there as attempt how many are due if none of them is claimed: they are more than `items_max`, or suspects, or several with more than `bytes_max`, their keys have more than `key_bytes_max`, or one has no item
-- roles: allocator
-- $1 flow_nos integer[]
-- $2 quotas integer[]
-- $3 floor_ats timestamptz[]
-- $4 floor_blocks bigint[]
-- $5 retry_floor_ats timestamptz[]
-- $6 topics text[]
-- $7 partitions integer[]
-- $8 allocator_no bigint
-- $9 items_max bigint
-- $10 bytes_max bigint
-- $11 key_bytes_max bigint
-- $12 secret text
-- $13 lag_flow_nos integer[]
-- index: pending_available_idx, pending_retry_idx
-- locks: pending rows (for update, skip locked)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select q.*, f.retry_share, f.lag_target_seconds, k.dispatch_seconds, k.queue_seconds, k.run_seconds, k.lease_seconds,
    exists (
      select from ledger.pending p
      where p.flow_no = q.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
        and p.available_at <= ledger.now() and p.available_at >= q.retry_floor_at) as has_retries
  from unnest($1::integer[], $2::integer[], $3::timestamptz[], $4::bigint[], $5::timestamptz[], $6::text[], $7::integer[])
    q (flow_no, quota, floor_at, floor_block, retry_floor_at, topic, partitions)
  -- A flow that was limited after it was listed, or has another topic now, is skipped until it is listed again.
  join ledger.flow f on f.flow_no = q.flow_no and f.paused_at is null and not f.limited
  join ledger.kind k on k.kind_no = f.kind_no and k.topic = q.topic and k.settled_by <> 'topic'
),
firsts as materialized (
  select a.flow_no, a.quota, a.has_retries, a.retry_floor_at, array(
    select p.ctid
    from ledger.pending p
    where p.flow_no = a.flow_no and p.state = 1 /* Scheduled */ and p.serial is null
      and p.available_at <= ledger.now() and (p.available_at, p.item_no >> 10) >= (a.floor_at, a.floor_block)
    order by p.available_at, p.item_no >> 10
    limit a.quota - case when a.has_retries then floor(a.quota * a.retry_share + random())::integer else 0 end
    for update skip locked) as tids
  from asked a
),
taken as materialized (
  select f.flow_no, f.has_retries, case when f.has_retries then f.tids || array(
    select p.ctid
    from ledger.pending p
    where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
      and p.available_at <= ledger.now() and p.available_at >= f.retry_floor_at
    order by p.available_at
    limit f.quota - cardinality(f.tids)
    for update skip locked) else f.tids end as tids
  from firsts f
),
due as materialized (
  select case when cardinality(u.tids) <= $9::bigint then u.tids end as tids, cardinality(u.tids) as items
  from (select array(select unnest(t.tids) from taken t) as tids offset 0) u
),
-- The items are found before their rows are removed: what is left to claim_items is no error.
grouped as materialized (
  select array_agg(row(p.effective_date, array[p.item_no], p.attempt, p.starts, p.batch_max)::ledger.item_group) as groups
  from ledger.pending p
  where p.ctid = any ((select d.tids from due d)::tid[])
),
found as materialized (
  select i.*, a.topic, a.partitions, coalesce(i.partition_key, i.business_key) as key,
    a.dispatch_seconds, a.queue_seconds, a.run_seconds, a.lease_seconds
  from grouped g
  cross join lateral ledger.find_items(g.groups) i
  join asked a on a.flow_no = i.flow_no
),
chosen as materialized (
  select d.tids
  from due d
  cross join (
    select count(*) as items, count(f.batch_max) as suspects, sum(octet_length(f.payload::text)) as bytes,
      sum(octet_length(f.key)) as key_bytes
    from found f
  ) n
  where n.items = d.items and n.suspects = 0 and (n.items <= 1 or n.bytes <= $10::bigint)
    and coalesce(n.key_bytes, 0) <= $11::bigint
),
removed as (
  delete from ledger.pending p where p.ctid = any ((select c.tids from chosen c)::tid[])
  returning p.flow_no, p.available_at
),
-- The fence is drawn after the rows were locked, so that an item's fences only grow.
batch as materialized (
  -- Who has the secret finds the claims, if this answer is lost; a token does not reveal another.
  select n.*, left(encode(sha256(convert_to($12::text || n.fence, 'UTF8')), 'hex'), 16) as token
  from (
    select nextval('ledger.fence') as fence, g.*
    from (
      select f.topic, ledger.kafka_partition(f.key, f.partitions) as partition, f.dispatch_seconds, f.queue_seconds,
        f.run_seconds, f.lease_seconds, count(*)::integer as size, array_agg(f.item_no) as item_no,
        array_agg(f.effective_date) as effective_date, array_agg((f.attempt + 1)::smallint) as attempt,
        array_agg((f.starts + 1)::smallint) as starts, array_agg(distinct f.flow_no) as flow_nos
      from found f
      where exists (select from chosen)
      group by 1, 2, f.dispatch_seconds, f.queue_seconds, f.run_seconds, f.lease_seconds
    ) g
  ) n
),
recorded as (
  insert into ledger.claim (
    fence, claimed_at, token, allocator_no, topic, partition, size, item_no, effective_date, attempt, starts,
    deadline, queue_seconds, run_seconds, lease_seconds, flow_nos, lag_flow_no, available_since)
  select b.fence, ledger.now(), b.token, $8::bigint, b.topic, b.partition, b.size, b.item_no, b.effective_date, b.attempt,
    b.starts, ledger.machine_now() + make_interval(secs => b.dispatch_seconds), b.queue_seconds, b.run_seconds,
    b.lease_seconds, b.flow_nos, late.flow_no, late.first_at
  from batch b
  -- Of the flows with a lag target, the one whose first item is the first to be late.
  left join lateral (
    select r.flow_no, r.available_at as first_at
    from removed r
    join asked a on a.flow_no = r.flow_no
    where cardinality($13::integer[]) > 0 and r.flow_no = any ($13::integer[]) and r.flow_no = any (b.flow_nos)
    order by r.available_at + make_interval(secs => a.lag_target_seconds) limit 1
  ) late on true
)
(select f.item_no, f.id, f.effective_date, f.flow_no, textsend(f.business_key) as business_key,
  textsend(f.partition_key) as partition_key, f.cycle, timestamptz_send(f.due_at) as due_at, json_send(f.payload) as payload, f.traceparent,
  f.attempt, f.starts, f.batch_max, b.fence, b.token, b.partition
from batch b
cross join lateral unnest(b.item_no) with ordinality u (item_no, position)
join found f on f.item_no = u.item_no
order by b.fence, u.position)
union all
-- As in claim_items.
select null, null, null, f.flow_no, null, null, null,
  case when n.seconds < 60 then timestamptz_send(ledger.now() + make_interval(secs => n.seconds)) end, null, null, null, null, null, null, null, null
from firsts f
cross join lateral (
  select (extract(epoch from least(
    (select p.available_at from ledger.pending p
     where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at > ledger.now()
     order by p.available_at, p.item_no >> 10 limit 1),
    (select p.available_at from ledger.pending p
     where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
       and p.available_at > ledger.now()
     order by p.available_at limit 1)) - ledger.now()) / ledger.clock_rate())::double precision as seconds
  offset 0
) n
where not f.has_retries
union all
select d.items, null, null, null, null, null, null, timestamptz_send(ledger.now()), null, null,
  case when not exists (select from chosen) then d.items end, null, null, null, null, null
from due d
