-- Lock stripes of keys whose due items may end one another, until the transaction ends, except those that another claimer has locked.
-- returns: zero or more
-- roles: allocator, pull_worker
-- $1 flow_nos integer[]
-- $2 quotas integer[]
-- $3 floor_ats timestamptz[]
-- $4 measured boolean[]
-- index: pending_serial_idx
-- locks: lock_row, one a stripe (skip locked)
with due as materialized (
  select distinct (l.serial & 127)::integer as stripe
  from unnest($1::integer[], $2::integer[], $3::timestamptz[], $4::boolean[]) q (flow_no, quota, floor_at, measured)
  join ledger.flow f on f.flow_no = q.flow_no and f.paused_at is null and (q.measured or not f.limited)
  cross join lateral (
    (select p.serial, p.overlap
     from ledger.pending p
     where p.flow_no = q.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null
       and p.available_at <= ledger.now() and p.available_at >= q.floor_at
     order by p.available_at
     limit q.quota)
    union all
    (select p.serial, p.overlap
     from ledger.pending p
     where p.flow_no = q.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
       and p.available_at <= ledger.now() and p.available_at >= q.floor_at
     order by p.available_at
     limit q.quota)
  ) l
  where l.overlap > 1
)
select l.key::integer as stripe from ledger.try_lock_rows('serial', array(select d.stripe::text from due d)) l (key)
