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
