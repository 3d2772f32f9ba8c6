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
    and r.worker_no in (select l.worker_no from late l)
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
  returning r.run_no, r.worker_no, r.fence, r.from_position, r.to_position, r.ended, r.extended_at,
    r.run_until <= ledger.machine_now() as overran
),
lost as materialized (
  select c.run_no, u.item_no, u.effective_date, u.attempt, u.starts, coalesce(c.overran, false) as overran, k.batch_max,
    k.topic, k.topic_actor_no, k.topic_actor_no is not null and c.extended_at is null as unanswered,
    case when c.overran or k.topic_actor_no is not null then 1 else count(*) over (partition by c.worker_no) end as beside
  from closed c
  join ledger.claim k on k.fence = c.fence
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
  select l.item_no, l.effective_date, l.attempt, l.starts, l.run_no, l.beside, l.overran, i.flow_no, i.due_at, i.serial,
    i.overlap, i.business_key, l.unanswered, b.blamed,
    case when b.blamed then l.attempt else l.attempt - 1 end as used,
    case when l.unanswered then l.batch_max when b.blamed then 1
      else greatest(1, least(l.beside / 8, l.batch_max / 8, 32000)) end as batch_max,
    case when b.blamed
      then least(k.backoff_cap_seconds, k.backoff_base_seconds * power(2, least(l.attempt, 30) - 1))
      else 0 end as backoff_seconds,
    not l.unanswered and ((b.blamed and l.attempt >= k.attempt_max) or l.starts >= k.start_max
      or (l.overran and k.run_late = 'park')
      or coalesce(ledger.now() > i.due_at + make_interval(secs => k.total_seconds), false)) as exhausted,
    case when l.overran then 'it ran longer than its kind may' else 'its worker died or lost its lease each time it ran' end as reason
  from lost l
  cross join lateral (select l.beside = 1 and not l.unanswered as blamed) b
  join ledger.due_item i on i.effective_date = l.effective_date and i.item_no = l.item_no
  join ledger.flow f on f.flow_no = i.flow_no
  join ledger.kind k on k.kind_no = f.kind_no
),
journal as (
  insert into ledger.transition (effective_date, item_no, event, attempt, run_no, actor_no, at, detail)
  select j.effective_date, j.item_no,
    case when j.unanswered then 3 /* released */ when j.exhausted then 9 /* parked */ else 7 /* timed_out */ end,
    j.attempt, j.run_no, $2::integer, ledger.now(),
    case when j.unanswered then jsonb_build_object('reason', 'nobody answered within its lease')
      else jsonb_build_object(
        'reason', case when j.overran then 'overran' else 'lease lapsed' end, 'beside', j.beside, 'starts', j.starts) end
  from judged j
),
back as (
  insert into ledger.pending (
    item_no, effective_date, flow_no, available_at, state, attempt, starts, batch_max, serial, serial_due_at, overlap)
  select j.item_no, j.effective_date, j.flow_no,
    greatest(ledger.not_before(j.item_no, j.due_at), ledger.now() + make_interval(secs => j.backoff_seconds)),
    case when j.unanswered then 1 /* Scheduled */ else 4 /* RetryableFailure */ end, j.used,
    case when j.unanswered then j.starts - 1 else j.starts end, j.batch_max, j.serial,
    case when j.serial is not null then j.due_at end, j.overlap
  from judged j where not j.exhausted
),
parked as (
  insert into ledger.review (item_no, effective_date, flow_no, parked_at, attempt, starts, reason, run_no, actor_no)
  select j.item_no, j.effective_date, j.flow_no, ledger.now(), j.attempt, j.starts,
    j.reason, j.run_no, $2::integer
  from judged j where j.exhausted
),
streak as (
  insert into ledger.failure_streak as s (flow_no, business_key, failures, first_at, last_at, reason)
  select j.flow_no, j.business_key, count(*), ledger.now(), ledger.now(), max(j.reason)
  from judged j
  where j.blamed
  group by j.flow_no, j.business_key
  order by j.flow_no, j.business_key
  on conflict (flow_no, business_key) do update set
    failures = s.failures + excluded.failures, last_at = excluded.last_at, reason = excluded.reason
),
silent as (
  insert into ledger.silent_topic (topic, topic_actor_no, since)
  select distinct l.topic, l.topic_actor_no, ledger.now() from lost l where l.unanswered order by l.topic
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
  (select count(*) from judged where not exhausted and not unanswered)::integer as retried,
  (select count(*) from judged where unanswered)::integer as released,
  (select count(*) from judged where exhausted)::integer as parked
where ledger.none_lost((select count(*) from lost), (select count(*) from judged))
