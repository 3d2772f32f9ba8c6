-- Close runs past their lease: items not ended go from Running to RetryableFailure, or to ManualReview at their cap; items settled by topic without any reported outcome go back to Scheduled.
-- returns: one
-- $1 limit integer
-- $2 actor_no integer
-- index: run_lease_idx, claim_pkey, due_item_pkey
-- locks: advisory, one reaper at a time; run rows (for update, skip locked); silent_topic rows (topic ascending)
with late as materialized (
  select r.worker_no
  from ledger.run r
  where r.closed_at is null and r.lease_until < ledger.machine_now()
    and (r.run_until > ledger.machine_now()) is not false
    -- The leases of a dead worker lapse within one heartbeat, a third of a lease; its runs are judged together.
    and not exists (
      select from ledger.run o
      where o.closed_at is null and o.worker_no = r.worker_no and o.lease_until >= ledger.machine_now()
        and o.lease_until < r.lease_until + make_interval(secs => r.lease_seconds / 2))
  order by r.lease_until
  limit $1::integer
),
lapsed as materialized (
  select r.run_no, r.started_at
  from ledger.run r
  where r.closed_at is null and r.lease_until < ledger.machine_now()
    -- A run past its hard end waits for no other: its worker may live, and always has leases that end soon.
    and (r.run_until <= ledger.machine_now() or r.worker_no in (select l.worker_no from late l))
    -- One reaper at a time: two would each see half of a worker's runs.
    and (select pg_try_advisory_xact_lock(hashtextextended('ledger.reap_runs', 0)))
  order by r.lease_until
  limit 100000
  for update skip locked
),
closed as (
  update ledger.run r
  set closed_at = ledger.now()
  from lapsed l
  where r.run_no = l.run_no and r.started_at = l.started_at and r.closed_at is null
  returning r.run_no, r.worker_no, r.fence, r.claimed_at, r.from_position, r.to_position, r.ended, r.extended_at,
    r.run_until <= ledger.machine_now() as overran
),
lost as materialized (
  select c.run_no, u.item_no, u.effective_date, u.attempt, u.starts, coalesce(c.overran, false) as overran, k.batch_max,
    k.topic, k.topic_actor_no, k.topic_actor_no is not null and c.extended_at is null as unreported,
    case when c.overran or k.topic_actor_no is not null then 1 else count(*) over (partition by c.worker_no) end as beside
  from closed c
  join ledger.claim k on k.fence = c.fence and k.claimed_at = c.claimed_at
  cross join lateral unnest(
    k.item_no[c.from_position:c.to_position], k.effective_date[c.from_position:c.to_position],
    k.attempt[c.from_position:c.to_position], k.starts[c.from_position:c.to_position]
  ) with ordinality u (item_no, effective_date, attempt, starts, ord)
  where get_bit(c.ended, u.ord::integer - 1) = 0
),
-- Items settled by topic without any reported outcome may never have been read: they are released and no start is counted.
-- An item whose worker ran others beside it is not blamed: no attempt is counted, and it is claimed again in a smaller batch.
-- The batch is smaller than its own was, too: a worker that starts many small batches at once would die of them for ever.
judged as materialized (
  select l.*, i.flow_no, i.due_at, i.serial, i.overlap, i.business_key, b.blamed, w.wait_seconds,
    ledger.outcome_event(k,
      case when l.unreported then 3 /* released */ when l.overran and k.run_late = 'park' then 9 /* parked */
        else 7 /* timed_out */ end::smallint,
      b.blamed, l.attempt, l.starts, i.due_at, w.wait_seconds) as verdict
  from lost l
  cross join lateral (select l.beside = 1 and not l.unreported as blamed) b
  join ledger.due_item i on i.effective_date = l.effective_date and i.item_no = l.item_no
  join ledger.flow f on f.flow_no = i.flow_no
  join ledger.kind k on k.kind_no = f.kind_no
  cross join lateral (
    select case when b.blamed then ledger.retry_seconds(k, l.attempt) else 0 end as wait_seconds
  ) w
),
recorded as materialized (
  select ledger.record_outcomes(array_agg(row(
    j.item_no, j.effective_date, j.flow_no, j.run_no, j.verdict, j.attempt, j.starts, j.blamed, j.wait_seconds,
    case when j.unreported then j.batch_max when j.blamed then 1
      else greatest(1, least(j.beside / 8, j.batch_max / 8, 32000)) end,
    j.due_at, j.serial, j.overlap, j.business_key,
    case when j.overran then 'it ran longer than its kind may' else 'its worker died or lost its lease each time it ran' end,
    case when j.unreported then jsonb_build_object('reason', 'no outcome was reported within the lease')
      else jsonb_build_object(
        'reason', case when j.overran then 'overran' else 'lease lapsed' end, 'beside', j.beside, 'starts', j.starts) end
  )::ledger.item_outcome), $2::integer) as items
  from judged j
),
silent as (
  insert into ledger.silent_topic (topic, topic_actor_no, since)
  select distinct l.topic, l.topic_actor_no, ledger.now() from lost l where l.unreported order by l.topic
  on conflict do nothing
),
-- Only blamed items count for the circuit: the others say nothing about the system that the flow's handlers call.
counted as (
  insert into ledger.flow_outcome (flow_no, at, run_no, completed, failed)
  select j.flow_no, ledger.machine_now(), min(j.run_no), 0, count(*)
  from judged j join ledger.flow f on f.flow_no = j.flow_no and f.circuit_failure_ratio is not null
  where j.blamed
  group by j.flow_no
)
select
  (select count(*) from closed)::integer as runs,
  (select count(*) from judged where verdict = 7 /* timed_out */)::integer as retried,
  (select count(*) from judged where verdict = 3 /* released */)::integer as released,
  (select count(*) from judged where verdict = 9 /* parked */)::integer as parked
from recorded r
where ledger.none_lost((select count(*) from lost), r.items)
