-- Record how items of open runs ended (Running to Completed, Cancelled, RetryableFailure, Scheduled or ManualReview), each bit once.
-- returns: zero or more
-- roles: outcome_intake, pull_worker, worker
-- $1 run_nos bigint[]
-- $2 started_ats timestamptz[]
-- $3 masks bit varying[]
-- $4 firsts integer[]
-- $5 details text
-- $6 worker_no bigint
-- $7 first_started_at timestamptz
-- $8 last_started_at timestamptz
-- $9 first_claimed_at timestamptz
-- $10 last_claimed_at timestamptz
-- $11 actor_no bigint
-- $12 events smallint[]
-- $13 after_seconds double precision[]
-- index: run_pkey, claim_pkey
-- locks: run rows (for update, run_no ascending)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select * from unnest($1::bigint[], $2::timestamptz[], $3::bit varying[], $4::integer[]) a (run_no, started_at, mask, first)
  order by a.run_no
),
-- As in settle_completed_runs.
detail as materialized (
  select string_to_array($5::text, e'\x1f', '') as details
),
accepted as (
  update ledger.run r
  set ended = r.ended | a.mask,
    closed_at = case when (r.ended | a.mask) = ~(r.ended & ~r.ended) then ledger.now() end
  from asked a
  where r.run_no = a.run_no and r.started_at is not distinct from a.started_at and r.started_at between $7::timestamptz and $8::timestamptz
    -- Only a run whose claim is found below: otherwise it would close, and its items have no transition.
    and r.claimed_at between $9::timestamptz and $10::timestamptz
    and r.closed_at is null and r.worker_no = $6::bigint and (r.ended & a.mask) = (r.ended & ~r.ended)
  returning r.run_no, r.fence, r.claimed_at, r.from_position, r.to_position, r.flow_no, a.first
),
-- `is not distinct from` beside a bound: with `=`, PostgreSQL 18 misses rows after it waited for a lock (adr/0012).
outcome as materialized (
  select a.run_no, a.flow_no as limited_flow_no, u.item_no, u.effective_date, u.attempt, u.starts, u.event, u.detail,
    u.after_seconds, c.batch_max
  from accepted a
  cross join detail d
  join ledger.claim c on c.fence = a.fence and c.claimed_at is not distinct from a.claimed_at
    and c.claimed_at between $9::timestamptz and $10::timestamptz
  cross join lateral unnest(
    c.item_no[a.from_position:a.to_position], c.effective_date[a.from_position:a.to_position],
    c.attempt[a.from_position:a.to_position], c.starts[a.from_position:a.to_position],
    ($12::smallint[])[a.first:a.first + a.to_position - a.from_position],
    d.details[a.first:a.first + a.to_position - a.from_position],
    ($13::double precision[])[a.first:a.first + a.to_position - a.from_position]
  ) u (item_no, effective_date, attempt, starts, event, detail, after_seconds)
  where u.event is not null
),
final as (
  insert into ledger.transition (effective_date, item_no, event, attempt, run_no, actor_no, at, detail)
  select o.effective_date, o.item_no, o.event, o.attempt, o.run_no, $11::bigint, (select ledger.now()),
    o.detail::jsonb
  from outcome o
  where o.event in (5 /* completed */, 11 /* cancelled */)
),
recorded as materialized (
  select r.items
  from (
    select array_agg(row(
      o.item_no, o.effective_date, o.run_no, o.event, o.attempt, o.starts, null, false, o.after_seconds,
      -- A suspect stays one until it completes: a failure may have been the end of its own process.
      case o.event when 3 /* released */ then o.batch_max when 6 /* failed */ then case when o.batch_max is not null then 1 end end,
      o.evidence ->> 'reason', o.evidence)::ledger.item_outcome) as outcomes
    from (select o.*, o.detail::jsonb as evidence from outcome o
      where o.event in (3 /* released */, 6 /* failed */, 8 /* snoozed */, 9 /* parked */)) o
  ) u
  cross join lateral ledger.record_outcomes(u.outcomes, $11::bigint) r
),
counted as materialized (
  select ledger.count_outcomes(array_agg(o.flow_no), array_agg(o.run_no), array_agg(o.completed), array_agg(o.failed)) as is_done
  from (
    select o.limited_flow_no as flow_no, o.run_no, count(*) filter (where o.event = 5 /* completed */) as completed,
      count(*) filter (where o.event = 6 /* failed */) as failed
    from outcome o
    where o.limited_flow_no is not null and o.event in (5 /* completed */, 6 /* failed */)
    group by o.limited_flow_no, o.run_no
  ) o
),
refused as materialized (
  select a.run_no, a.mask, a.first, r.fence, r.from_position, r.to_position,
    case
      when r.fence is null or r.worker_no <> $6::bigint
        or r.claimed_at not between $9::timestamptz and $10::timestamptz then 'stale'
      when (r.ended & a.mask) = a.mask then 'settled'
      when r.closed_at is not null then 'stale'
      else 'contended'
    end as reason
  from asked a
  cross join lateral ledger.find_run(a.run_no, a.started_at) r
  where (select count(*) from accepted) < (select count(*) from asked)  -- seldom, because it compares all with all
    and not exists (select from accepted k where k.run_no = a.run_no)
),
stale as (
  insert into ledger.rejected_write (
    rejected_at, actor_no, verb, reason, fence, run_no, from_position, to_position, detail)
  select ledger.now(), $11::bigint, 'settle', x.reason, x.fence, x.run_no, x.from_position, x.to_position,
    jsonb_build_object('mask', x.mask::text,
      'events', ($12::smallint[])[x.first:x.first + length(x.mask) - 1])
  from refused x
  where x.reason = 'stale'
)
select x.run_no, x.reason from refused x
union all
select null, null
from recorded r
where not case when (select c.is_done from counted c) then ledger.none_lost(
  (select count(*) from outcome o where o.event in (3 /* released */, 6 /* failed */, 8 /* snoozed */, 9 /* parked */)),
  r.items) end
