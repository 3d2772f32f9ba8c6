-- Change the limits of flows, by tenant, kind and lane, null for every kind or lane; null keeps a value, a cleared limit is removed.
-- returns: zero or more, one a flow
-- roles: operator
-- $1 tenant text
-- $2 kind text
-- $3 lane text
-- $4 weight integer
-- $5 rate_per_second double precision
-- $6 concurrency_max integer
-- $7 window_items integer
-- $8 retry_share double precision
-- $9 circuit_failure_ratio double precision
-- $10 circuit_calls_min integer
-- $11 circuit_window_seconds double precision
-- $12 circuit_rest_seconds double precision
-- $13 lag_target_seconds double precision
-- $14 cleared text[]
-- $15 actor_no bigint
-- index: claim_deadline_idx, run_lease_idx, claim_pkey, due_item_pkey
-- locks: flow rows (for update, flow_no ascending), claim and run rows (for update, skip locked)
with locked_default as (select from ledger.due_item_default),
found as materialized (
  select f.flow_no, f.tenant, f.kind,
    jsonb_build_object(
      'weight', f.weight, 'rate_per_second', f.rate_per_second, 'concurrency_max', f.concurrency_max,
      'window_items', f.window_items, 'retry_share', f.retry_share, 'circuit_failure_ratio', f.circuit_failure_ratio,
      'circuit_calls_min', f.circuit_calls_min, 'circuit_window_seconds', f.circuit_window_seconds,
      'circuit_rest_seconds', f.circuit_rest_seconds, 'lag_target_seconds', f.lag_target_seconds) as was,
    num_nonnulls(f.concurrency_max, f.window_items, f.circuit_failure_ratio) > 0 as counted,
    -- A new circuit starts closed; only runs that begin after it count.
    f.circuit_failure_ratio is null and $9::double precision is not null as is_new
  from ledger.flow f
  where f.tenant = $1::text and ($2::text is null or f.kind = $2::text) and ($3::text is null or f.lane = $3::text)
  order by f.flow_no
  for update of f
),
changed as (
  update ledger.flow f
  set weight = coalesce($4::integer, f.weight),
    rate_per_second = case when 'rate_per_second' = any ($14::text[]) then null
      else coalesce($5::double precision, f.rate_per_second) end,
    concurrency_max = case when 'concurrency_max' = any ($14::text[]) then null
      else coalesce($6::integer, f.concurrency_max) end,
    window_items = case when 'window_items' = any ($14::text[]) then null else coalesce($7::integer, f.window_items) end,
    retry_share = coalesce($8::double precision, f.retry_share),
    circuit_failure_ratio = case when 'circuit_failure_ratio' = any ($14::text[]) then null
      else coalesce($9::double precision, f.circuit_failure_ratio) end,
    circuit_calls_min = coalesce($10::integer, f.circuit_calls_min),
    circuit_window_seconds = coalesce($11::double precision, f.circuit_window_seconds),
    circuit_rest_seconds = coalesce($12::double precision, f.circuit_rest_seconds),
    lag_target_seconds = case when 'lag_target_seconds' = any ($14::text[]) then null
      else coalesce($13::double precision, f.lag_target_seconds) end,
    circuit = case when x.is_new then 'closed' else f.circuit end,
    circuit_at = case when x.is_new then ledger.machine_now() else f.circuit_at end,
    circuit_run_no = case when x.is_new then pg_sequence_last_value('ledger.run_run_no_seq') else f.circuit_run_no end
  from found x
  where f.flow_no = x.flow_no
  returning f.flow_no, x.tenant, x.kind, x.was, f.lane, f.weight, f.rate_per_second, f.concurrency_max, f.window_items,
    f.retry_share, f.circuit_failure_ratio, f.circuit_calls_min, f.circuit_window_seconds, f.circuit_rest_seconds, f.lag_target_seconds,
    num_nonnulls(f.concurrency_max, f.window_items, f.circuit_failure_ratio) > 0 and not x.counted as becomes_counted
),
journal as (
  insert into ledger.flow_change (flow_no, changed_at, actor_no, change)
  select c.flow_no, ledger.now(), $15::bigint, to_jsonb(c) - '{flow_no,tenant,kind,was,lane,becomes_counted}'::text[]
  from changed c
),
-- Items in flight are counted from now on, if their claim has no other items.
handed as materialized (
  select c.fence, c.claimed_at
  from ledger.claim c
  where c.closed_at is null and c.deadline > '-infinity' and c.flow_no is null
    and exists (select from changed x where x.becomes_counted)
  order by c.deadline limit 10000
  for update skip locked
),
running as materialized (
  select r.run_no, r.started_at, r.fence, r.claimed_at
  from ledger.run r
  where r.closed_at is null and r.lease_until > '-infinity' and r.flow_no is null
    and exists (select from changed x where x.becomes_counted)
  order by r.lease_until limit 10000
  for update skip locked
),
alone as materialized (
  select o.fence, o.claimed_at, x.flow_no
  from (select h.fence, h.claimed_at from handed h union select r.fence, r.claimed_at from running r) o
  join ledger.claim c on c.fence = o.fence and c.claimed_at = o.claimed_at
  join ledger.due_item i on i.effective_date = c.effective_date[1] and i.item_no = c.item_no[1]
  join changed x on x.flow_no = i.flow_no
  where not exists (
    select from unnest(c.effective_date, c.item_no) u (effective_date, item_no)
    join ledger.due_item j on j.effective_date = u.effective_date and j.item_no = u.item_no
    where j.flow_no <> x.flow_no)
),
counted_claim as (
  update ledger.claim c set flow_no = a.flow_no
  from handed h join alone a on a.fence = h.fence and a.claimed_at = h.claimed_at
  where c.fence = h.fence and c.claimed_at = h.claimed_at and c.closed_at is null
),
counted_run as (
  update ledger.run r set flow_no = a.flow_no
  from running u join alone a on a.fence = u.fence and a.claimed_at = u.claimed_at
  where r.run_no = u.run_no and r.started_at = u.started_at and r.closed_at is null
)
select c.flow_no, c.tenant, c.kind, c.lane, c.weight, c.rate_per_second, c.concurrency_max, c.window_items,
  c.retry_share, c.circuit_failure_ratio, c.circuit_calls_min, c.circuit_window_seconds, c.circuit_rest_seconds, c.lag_target_seconds, c.was
from changed c order by c.tenant, c.kind, c.lane
