-- List flows with their limits, what blocks or slows them, and their pending items, counted up to a bound.
-- returns: zero or more
-- roles: auditor, operator
-- $1 tenant text
-- $2 kind text
-- $3 lane text
-- $4 count_max integer
-- $5 limit integer
-- $6 tenants text[]
-- $7 after_tenant text
-- $8 after_kind text
-- $9 after_lane text
-- index: pending_available_idx, pending_retry_idx, pending_serial_idx, claim_flow_idx, run_flow_idx
-- locks: none
select k.tenant, k.name as kind, f.lane, f.weight, f.rate_per_second, f.concurrency_max, f.window_items, f.retry_share,
  f.circuit_failure_ratio, f.circuit_calls_min, f.circuit_window_seconds, f.circuit_rest_seconds, f.lag_target_seconds, f.circuit, f.circuit_at,
  f.paused_at, a.name as paused_by, f.pause_reason, k.topic, k.dispatch,
  case when f.rate_per_second is not null
    then ledger.tokens_now(f.rate_per_second, f.tokens, f.tokens_at) end as tokens,
  least(due.items, $4::integer) as due, due.items > $4::integer as due_capped,
  least(later.items, $4::integer) as later, later.items > $4::integer as later_capped,
  least(retries.items, $4::integer) as retries, retries.items > $4::integer as retries_capped,
  least(serials.items, $4::integer) as serial, serials.items > $4::integer as serial_capped,
  oldest.available_since,
  case when num_nonnulls(f.concurrency_max, f.window_items, f.circuit_failure_ratio) > 0
    then handed.items + running.items end as in_flight,
  pace.share as slowed_share, pace.slowed_at as slowed_since, pace.late as slowed_by, pace.lag_seconds as slowed_lag_seconds,
  pace.lag_target_seconds as slowed_lag_target_seconds
from ledger.flow f
join ledger.kind k on k.kind_no = f.kind_no
left join ledger.actor a on a.actor_no = f.paused_by
cross join lateral (
  select count(*)::integer as items from (
    select from ledger.pending p
    where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at <= ledger.now()
    limit $4::integer + 1) x
) due
cross join lateral (
  select count(*)::integer as items from (
    select from ledger.pending p
    where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at > ledger.now()
    limit $4::integer + 1) x
) later
cross join lateral (
  select count(*)::integer as items from (
    select from ledger.pending p
    where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null limit $4::integer + 1) x
) retries
cross join lateral (
  select count(*)::integer as items from (
    select from ledger.pending p where p.flow_no = f.flow_no and p.serial is not null
    order by p.state, p.available_at  -- ordered like the index that begins with the flow
    limit $4::integer + 1) x
) serials
cross join lateral (
  select min(p.available_at) as available_since
  from (
    (select p.available_at from ledger.pending p
     where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at <= ledger.now()
     order by p.available_at limit 1)
    union all
    (select p.available_at from ledger.pending p
     where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null and p.available_at <= ledger.now()
     order by p.available_at limit 1)
    union all
    (select p.available_at from ledger.pending p
     where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null and p.available_at <= ledger.now()
     order by p.available_at limit 1)
    union all
    (select p.available_at from ledger.pending p
     where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
       and p.available_at <= ledger.now()
     order by p.available_at limit 1)
  ) p
) oldest
cross join lateral (
  select coalesce(sum(c.size - c.started), 0)::bigint as items
  from ledger.claim c where c.flow_no = f.flow_no and c.closed_at is null
) handed
cross join lateral (
  select coalesce(sum(bit_length(r.ended) - bit_count(r.ended)), 0)::bigint as items
  from ledger.run r where r.flow_no = f.flow_no and r.closed_at is null
) running
-- Only floods are slowed: flows with more due items than a light claim takes. A pace that nobody steps is not in force.
left join lateral (
  select p.share, p.slowed_at, p.lag_seconds, p.lag_target_seconds, concat_ws(' × ', l.tenant, l.kind, nullif(l.lane, '')) as late
  from ledger.flood_pace p
  left join ledger.flow l on l.flow_no = p.flow_no
  where due.items > 200 and p.share < 1 and p.stepped_at > ledger.machine_now() - interval '10 seconds'
    and p.flow_no is distinct from f.flow_no
) pace on true
where ($1::text is null or k.tenant = $1::text) and ($2::text is null or k.name = $2::text)
  and ($3::text is null or f.lane = $3::text) and ($6::text[] is null or k.tenant = any ($6::text[]))
  and ($7::text is null or (k.tenant, k.name, f.lane) > ($7::text, $8::text, $9::text))
order by k.tenant, k.name, f.lane
limit $5::integer
