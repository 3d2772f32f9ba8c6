-- Say how long until a row becomes available, a claim passes its deadline or a lease lapses; null when nothing waits.
-- returns: one
-- index: pending_available_idx, pending_retry_idx, pending_serial_idx, claim_deadline_idx, run_lease_idx
-- locks: none
with recursive firsts (flow_no) as (
  (select p.flow_no from ledger.pending p where p.state = 1 /* Scheduled */ and p.serial is null order by p.flow_no limit 1)
  union all
  select (
    select p.flow_no from ledger.pending p
    where p.state = 1 /* Scheduled */ and p.serial is null and p.flow_no > w.flow_no order by p.flow_no limit 1)
  from firsts w where w.flow_no is not null
),
retries (flow_no) as (
  (select p.flow_no from ledger.pending p where p.state = 4 /* RetryableFailure */ and p.serial is null order by p.flow_no limit 1)
  union all
  select (
    select p.flow_no from ledger.pending p
    where p.state = 4 /* RetryableFailure */ and p.serial is null and p.flow_no > w.flow_no order by p.flow_no limit 1)
  from retries w where w.flow_no is not null
),
serials (flow_no, state, at) as (
  (select p.flow_no, p.state, p.available_at from ledger.pending p
   where p.serial is not null
   order by p.flow_no, p.state, p.available_at limit 1)
  union all
  select n.*
  from serials w
  cross join lateral (
    select p.flow_no, p.state, p.available_at from ledger.pending p
    where p.serial is not null and (p.flow_no, p.state) > (w.flow_no, w.state)
    order by p.flow_no, p.state, p.available_at limit 1
  ) n
),
next as (
  select w.flow_no, (
    select p.available_at from ledger.pending p
    where p.flow_no = w.flow_no and p.state = 1 /* Scheduled */ and p.serial is null order by p.available_at limit 1) as at
  from firsts w
  union all
  select w.flow_no, (
    select p.available_at from ledger.pending p
    where p.flow_no = w.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null order by p.available_at limit 1)
  from retries w
  union all
  select w.flow_no, w.at
  from serials w
)
select least(
  extract(epoch from (
    select min(n.at) from next n
    join ledger.flow f on f.flow_no = n.flow_no and f.paused_at is null
    where n.at < 'infinity'
  ) - ledger.now()) / ledger.clock_rate(),
  extract(epoch from (
    select c.deadline from ledger.claim c where c.closed_at is null order by c.deadline limit 1
  ) - ledger.machine_now()),
  extract(epoch from (
    select r.lease_until from ledger.run r where r.closed_at is null order by r.lease_until limit 1
  ) - ledger.machine_now())
)::double precision as seconds
