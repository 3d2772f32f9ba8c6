create function ledger.retry_seconds(kind ledger.kind, attempt smallint) returns double precision
  language sql volatile parallel restricted
  return random() * least(kind.backoff_cap_seconds, kind.backoff_base_seconds * power(2, least(attempt, 30) - 1));

comment on function ledger.retry_seconds is
  'How long a failed attempt waits until the next one: exponential, capped, with full jitter.';

create function ledger.outcome_event(
  kind ledger.kind, event smallint, blamed boolean, attempt smallint, starts smallint, due_at timestamptz,
  wait_seconds double precision
) returns smallint
  language sql stable parallel safe
  return case
    when event in (6 /* failed */, 7 /* timed_out */, 8 /* snoozed */) and starts >= kind.start_max then 9 /* parked */
    when event in (6 /* failed */, 7 /* timed_out */) and (
      (blamed and attempt >= kind.attempt_max)
      or coalesce(ledger.now() + make_interval(secs => wait_seconds)
        > due_at + make_interval(secs => kind.total_seconds), false)) then 9 /* parked */
    else event
  end;

comment on function ledger.outcome_event is
  'The event that the ledger records for an item: parked, where its kind permits no further attempt or start.';

create type ledger.item_outcome as (
  item_no bigint,
  effective_date date,
  flow_no integer,
  run_no bigint,
  event smallint,
  attempt smallint,
  starts smallint,
  blamed boolean,
  wait_seconds double precision,
  batch_max smallint,
  due_at timestamptz,
  serial bigint,
  overlap smallint,
  business_key text,
  reason text,
  detail jsonb
);

comment on type ledger.item_outcome is
  'How an item of a run ended, where it is not done: released, failed, timed_out, snoozed or parked. '
  'blamed: an attempt is counted, and a failure of its business key.';

create function ledger.record_outcomes(outcomes ledger.item_outcome[], actor_no integer) returns bigint
  language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  if outcomes is null then  -- in most settlements every item is completed
    return 0;
  end if;
  with outcome as materialized (select * from unnest(outcomes)),
  journal as (
    insert into ledger.transition (effective_date, item_no, event, attempt, run_no, actor_no, at, detail)
    select o.effective_date, o.item_no, o.event, o.attempt, o.run_no, record_outcomes.actor_no, ledger.now(), o.detail
    from outcome o
  ),
  back as (
    insert into ledger.pending (
      item_no, effective_date, flow_no, available_at, state, attempt, starts, batch_max, serial, serial_due_at, overlap)
    select o.item_no, o.effective_date, o.flow_no,
      greatest(ledger.not_before(o.item_no, o.due_at), ledger.now() + make_interval(secs => o.wait_seconds)),
      case when o.event in (6 /* failed */, 7 /* timed_out */) then 4 /* RetryableFailure */ else 1 /* Scheduled */ end,
      case when o.blamed then o.attempt else o.attempt - 1 end,
      -- A released item is as before its start: no start is counted.
      case o.event when 3 /* released */ then o.starts - 1 else o.starts end,
      o.batch_max, o.serial, case when o.serial is not null then o.due_at end, o.overlap
    from outcome o
    where o.event <> 9 /* parked */
  ),
  parked as (
    insert into ledger.review (item_no, effective_date, flow_no, parked_at, attempt, starts, reason, run_no, actor_no)
    select o.item_no, o.effective_date, o.flow_no, ledger.now(), o.attempt, o.starts,
      coalesce(o.reason, 'attempts exhausted'), o.run_no, record_outcomes.actor_no
    from outcome o
    where o.event = 9 /* parked */
  )
  insert into ledger.failure_streak as s (flow_no, business_key, failures, first_at, last_at, reason)
  select o.flow_no, o.business_key, count(*), ledger.now(), ledger.now(),
    left(max(coalesce(o.reason, o.detail ->> 'message')), 500)
  from outcome o
  where o.blamed
  group by o.flow_no, o.business_key
  order by o.flow_no, o.business_key
  on conflict (flow_no, business_key) do update set
    failures = s.failures + excluded.failures, last_at = excluded.last_at, reason = excluded.reason;
  return cardinality(outcomes);
end $$;

comment on function ledger.record_outcomes is
  'Record in the journal how items of runs ended, and put them back to pending or into review; returns how many.';
