create type ledger.item_outcome as (
  item_no bigint,
  effective_date date,
  run_no bigint,
  event smallint,
  attempt smallint,
  starts smallint,
  blamed boolean,
  overran boolean,
  after_seconds double precision,
  batch_max smallint,
  reason text,
  detail jsonb
);

comment on type ledger.item_outcome is
  'How an item of a run ended, where it is not done: released, failed, timed_out, snoozed or parked. '
  'blamed: an attempt is counted, and a failure of its business key; null where the recorded event decides. '
  'after_seconds: null for the kind''s backoff, or for no wait.';

create function ledger.record_outcomes(
  outcomes ledger.item_outcome[], actor_no bigint, out items bigint, out released bigint, out retried bigint, out parked bigint
)
  language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
  first_date date;
  last_date date;
begin
  items := 0; released := 0; retried := 0; parked := 0;
  if outcomes is null then  -- in most settlements every item is completed
    return;
  end if;
  -- With bounds, only the months of these items are opened, however many are kept.
  select min(o.effective_date), max(o.effective_date) into first_date, last_date from unnest(outcomes) o;
  with judged as materialized (
    select o.item_no, o.effective_date, o.run_no, o.attempt, o.starts, o.batch_max, o.reason, o.detail,
      o.event = 7 /* timed_out */ as has_lapsed, w.wait_seconds, v.event, coalesce(o.blamed, v.event in (6 /* failed */, 9 /* parked */)) as blamed,
      i.flow_no, i.due_at, i.serial, i.overlap, i.business_key, f.circuit_failure_ratio
    from unnest(outcomes) o
    cross join lateral (  -- `offset 0`: otherwise a plan made while there were few rows reads every item of these dates
      select i.flow_no, i.due_at, i.serial, i.overlap, i.business_key
      from ledger.due_item i
      where i.effective_date = o.effective_date and i.item_no = o.item_no and i.effective_date between first_date and last_date
      offset 0
    ) i
    join ledger.flow f on f.flow_no = i.flow_no
    join ledger.kind k on k.kind_no = f.kind_no
    cross join lateral (
      select coalesce(o.after_seconds, case when o.event in (6 /* failed */, 7 /* timed_out */) and coalesce(o.blamed, true)
        then ledger.retry_seconds(k, o.attempt) else 0 end) as wait_seconds
    ) w
    cross join lateral (
      select ledger.outcome_event(k,
        case when o.event = 7 /* timed_out */ and o.overran and k.run_late = 'park' then 9 /* parked */ else o.event end::smallint,
        coalesce(o.blamed, true), o.attempt, o.starts, i.due_at, w.wait_seconds) as event
    ) v
  ),
  journal as (
    insert into ledger.transition (effective_date, item_no, event, attempt, run_no, actor_no, at, detail)
    select j.effective_date, j.item_no, j.event, j.attempt, j.run_no, record_outcomes.actor_no, ledger.now(), j.detail
    from judged j
  ),
  back as (
    insert into ledger.pending (
      item_no, effective_date, flow_no, available_at, state, attempt, starts, batch_max, serial, serial_due_at, overlap)
    select j.item_no, j.effective_date, j.flow_no,
      greatest(ledger.not_before(j.item_no, j.due_at), ledger.now() + make_interval(secs => j.wait_seconds)),
      case when j.event in (6 /* failed */, 7 /* timed_out */) then 4 /* RetryableFailure */ else 1 /* Scheduled */ end,
      case when j.blamed then j.attempt else j.attempt - 1 end,
      -- A released item is as before its start: no start is counted.
      case j.event when 3 /* released */ then j.starts - 1 else j.starts end,
      j.batch_max, j.serial, case when j.serial is not null then j.due_at end, j.overlap
    from judged j
    where j.event <> 9 /* parked */
    returning flow_no, available_at
  ),
  reviewed as (
    insert into ledger.review (item_no, effective_date, flow_no, parked_at, attempt, starts, reason, run_no, actor_no)
    select j.item_no, j.effective_date, j.flow_no, ledger.now(), j.attempt, j.starts,
      coalesce(j.reason, 'attempts exhausted'), j.run_no, record_outcomes.actor_no
    from judged j
    where j.event = 9 /* parked */
  ),
  streak as (
    insert into ledger.failure_streak as s (flow_no, business_key, failures, first_at, last_at, reason)
    select j.flow_no, j.business_key, count(*), ledger.now(), ledger.now(),
      left(max(coalesce(j.reason, j.detail ->> 'message')), 500)
    from judged j
    where j.blamed
    group by j.flow_no, j.business_key
    order by j.flow_no, j.business_key
    on conflict (flow_no, business_key) do update set
      failures = s.failures + excluded.failures, last_at = excluded.last_at, reason = excluded.reason
  ),
  -- Only blamed items count for the circuit: the others say nothing about the system that the flow's handlers call.
  counted as (
    insert into ledger.flow_outcome (flow_no, at, run_no, completed, failed)
    select j.flow_no, ledger.machine_now(), min(j.run_no), 0, count(*)
    from judged j
    where j.has_lapsed and j.blamed and j.circuit_failure_ratio is not null
    group by j.flow_no
  )
  select count(*), count(*) filter (where j.event = 3 /* released */), count(*) filter (where j.event in (6 /* failed */, 7 /* timed_out */)),
    count(*) filter (where j.event = 9 /* parked */)
  into items, released, retried, parked
  from judged j
  having (select ledger.wake_sleepers(array_agg(b.flow_no), array_agg(b.available_at)) from back b);
end $$;

comment on function ledger.record_outcomes is
  'Record in the journal how items of runs ended, and put them back to pending or into review; returns how many. '
  'Items whose row is not found are left out and not counted.';
