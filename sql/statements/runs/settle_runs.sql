-- Record how items of open runs ended (Running to Completed, Cancelled, RetryableFailure, Scheduled or ManualReview), each bit once.
-- returns: zero or more
-- $1 run_nos bigint[]
-- $2 masks bit varying[]
-- $3 firsts integer[]
-- $4 events smallint[]
-- $5 details text[]
-- $6 after_seconds double precision[]
-- $7 worker_no integer
-- index: run_pkey, claim_pkey
-- locks: run rows (for update, run_no ascending)
with asked as materialized (
  select * from unnest($1::bigint[], $2::bit varying[], $3::integer[]) a (run_no, mask, first) order by a.run_no
),
accepted as (
  update ledger.run r
  set ended = r.ended | a.mask,
    closed_at = case when (r.ended | a.mask) = ~(r.ended & ~r.ended) then ledger.now() end
  from asked a
  where r.run_no = a.run_no and r.closed_at is null and r.worker_no = $7::integer
    and (r.ended & a.mask) = (r.ended & ~r.ended)
  returning r.run_no, r.fence, r.from_position, r.to_position, r.flow_no, a.first
),
outcome as materialized (
  select a.run_no, a.flow_no as limited_flow_no, u.item_no, u.effective_date, u.attempt, u.starts, u.event, u.detail,
    u.after_seconds, c.batch_max
  from accepted a
  join ledger.claim c on c.fence = a.fence
  cross join lateral unnest(
    c.item_no[a.from_position:a.to_position], c.effective_date[a.from_position:a.to_position],
    c.attempt[a.from_position:a.to_position], c.starts[a.from_position:a.to_position],
    ($4::smallint[])[a.first:a.first + a.to_position - a.from_position],
    ($5::text[])[a.first:a.first + a.to_position - a.from_position],
    ($6::double precision[])[a.first:a.first + a.to_position - a.from_position]
  ) u (item_no, effective_date, attempt, starts, event, detail, after_seconds)
  where u.event is not null
),
final as (
  insert into ledger.transition (effective_date, item_no, event, attempt, run_no, actor_no, at, detail)
  select o.effective_date, o.item_no, o.event, o.attempt, o.run_no, $7::integer, (select ledger.now()),
    o.detail::jsonb
  from outcome o
  where o.event in (5 /* completed */, 11 /* cancelled */)
),
judged as materialized (
  select o.*, o.detail::jsonb as evidence, i.flow_no, i.due_at, i.serial, i.overlap, i.business_key, w.wait_seconds,
    ledger.outcome_event(k, o.event, true, o.attempt, o.starts, i.due_at, w.wait_seconds) as verdict
  from outcome o
  join ledger.due_item i on i.effective_date = o.effective_date and i.item_no = o.item_no
  join ledger.flow f on f.flow_no = i.flow_no
  join ledger.kind k on k.kind_no = f.kind_no
  cross join lateral (
    select coalesce(o.after_seconds,
      case when o.event = 6 /* failed */ then ledger.retry_seconds(k, o.attempt) else 0 end) as wait_seconds
  ) w
  where o.event in (3 /* released */, 6 /* failed */, 8 /* snoozed */, 9 /* parked */)
),
recorded as materialized (
  select ledger.record_outcomes(array_agg(row(
    j.item_no, j.effective_date, j.flow_no, j.run_no, j.verdict, j.attempt, j.starts,
    j.verdict in (6 /* failed */, 9 /* parked */), j.wait_seconds,
    -- A released suspect stays a suspect.
    case j.verdict when 3 /* released */ then j.batch_max end,
    j.due_at, j.serial, j.overlap, j.business_key, j.evidence ->> 'reason', j.evidence
  )::ledger.item_outcome), $7::integer) as items
  from judged j
),
counted as (
  insert into ledger.flow_outcome (flow_no, at, run_no, completed, failed)
  select o.limited_flow_no, ledger.machine_now(), min(o.run_no), count(*) filter (where o.event = 5 /* completed */),
    count(*) filter (where o.event = 6 /* failed */)
  from outcome o
  join ledger.flow f on f.flow_no = o.limited_flow_no and f.circuit_failure_ratio is not null
  where o.limited_flow_no is not null and o.event in (5 /* completed */, 6 /* failed */)
  group by o.limited_flow_no
),
refused as materialized (
  select a.run_no, a.mask, a.first, r.fence, r.from_position, r.to_position,
    case
      when r.run_no is null or r.worker_no <> $7::integer then 'stale'
      when (r.ended & a.mask) = a.mask then 'settled'
      when r.closed_at is not null then 'stale'
      else 'contended'
    end as reason
  from asked a
  left join ledger.run r on r.run_no = a.run_no
  where (select count(*) from accepted) < (select count(*) from asked)  -- seldom, because it compares all with all
    and not exists (select from accepted k where k.run_no = a.run_no)
),
stale as (
  insert into ledger.rejected_write (
    rejected_at, actor_no, verb, reason, fence, run_no, from_position, to_position, detail)
  select ledger.now(), $7::integer, 'settle', x.reason, x.fence, x.run_no, x.from_position, x.to_position,
    jsonb_build_object('mask', x.mask::text,
      'events', ($4::smallint[])[x.first:x.first + length(x.mask) - 1])
  from refused x
  where x.reason = 'stale'
)
select x.run_no, x.reason from refused x
union all
select null, null
from recorded r
where not ledger.none_lost(
  (select count(*) from outcome o where o.event in (3 /* released */, 6 /* failed */, 8 /* snoozed */, 9 /* parked */)),
  r.items)
