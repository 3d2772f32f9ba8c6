-- Find for each flow that is not paused how soon its next row is available, and the floor from which to scan.
-- returns: zero or more
-- roles: allocator
-- $1 flow_nos integer[]
-- $2 floor_ats timestamptz[]
-- $3 floor_blocks bigint[]
-- $4 retry_floor_ats timestamptz[]
-- $5 serial_floor_ats timestamptz[]
-- $6 overlap_seconds double precision[]
-- index: pending_available_idx, pending_retry_idx, pending_serial_idx
-- locks: none
select u.flow_no, first.at is not null or retry.at is not null as plain, serial.at is not null as serial,
  (extract(epoch from least(first.at, retry.at, serial.at) - ledger.now()) / ledger.clock_rate())::double precision
    as due_seconds,
  least(first.at, settled.at) as floor_at,
  case when first.at <= settled.at then first.block else 0 end as floor_block,
  least(retry.at, settled.at) as retry_floor_at, least(serial.at, settled.at) as serial_floor_at
from unnest($1::integer[], $2::timestamptz[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::double precision[])
  u (flow_no, floor_at, floor_block, retry_floor_at, serial_floor_at, overlap_seconds)
join ledger.flow f on f.flow_no = u.flow_no and f.paused_at is null
-- Rows inserted now become visible with their commit: every floor stays behind now by the overlap.
cross join lateral (
  select ledger.now() - make_interval(secs => u.overlap_seconds * ledger.clock_rate()) as at
) settled
left join lateral (
  select p.available_at as at, p.item_no >> 10 as block
  from ledger.pending p
  where p.flow_no = u.flow_no and p.state = 1 /* Scheduled */ and p.serial is null
    and (p.available_at, p.item_no >> 10) >= (u.floor_at, u.floor_block)
  order by p.available_at, p.item_no >> 10 limit 1
) first on true
left join lateral (
  select p.available_at as at
  from ledger.pending p
  where p.flow_no = u.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
    and p.available_at >= u.retry_floor_at
  order by p.available_at limit 1
) retry on true
left join lateral (
  select least(
    (select p.available_at from ledger.pending p
     where p.flow_no = u.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null
       and p.available_at < 'infinity' and p.available_at >= u.serial_floor_at
     order by p.available_at limit 1),
    (select p.available_at from ledger.pending p
     where p.flow_no = u.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
       and p.available_at < 'infinity' and p.available_at >= u.serial_floor_at
     order by p.available_at limit 1)) as at
) serial on true
