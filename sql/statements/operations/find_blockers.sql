-- Find what blocks a pending item besides its time: its flow's limits, circuit and pause, its topic's credit or silent topic, its key's holder, and the items before it.
-- returns: zero or one
-- roles: auditor, operator
-- $1 item_no bigint
-- $2 topic_window_items integer
-- $3 counted_max integer
-- index: pending_pkey, pending_available_idx, pending_retry_idx, pending_serial_idx, claim_flow_idx, run_flow_idx, claim_deadline_idx, credit_pkey, held_key_pkey, review_pkey, transition_item_idx
-- locks: none
with locked_default as (select from ledger.due_item_default)
select f.rate_per_second, ledger.tokens_now(f.rate_per_second, f.tokens, f.tokens_at) as tokens, f.concurrency_max,
  case when k.settled_by = 'topic' then coalesce(f.window_items, $2::integer) else f.window_items end as window_items,
  f.circuit, f.circuit_at, f.circuit_rest_seconds, k.settled_by, k.dispatch, k.tenant, k.name as kind, k.topic,
  f.paused_at, widest.paused_until, widest.by as paused_by, widest.tenant as paused_tenant, widest.kind as paused_kind, widest.lane as paused_lane,
  handed.items as handed_out, running.items as running, credit.granted, credit.grants, outstanding.items as outstanding,
  outstanding.last_at as outstanding_at, handler.name as handler_name, handler.host as handler_host, handler.seen_at as handler_seen_at,
  p.available_at = 'infinity' as blocked, (k.ordering <> 'key' or p.overlap > 1) as is_overlap, p.batch_max is not null as is_suspect,
  holder.id as behind, holder.review_reason as behind_reason, holder.retry_at as behind_until,
  last.event as last_event, last.reason as last_reason, last.put_off_by,
  -- Its row is not of the transaction that this event is of: a claim of it expired since, and it waits for the backoff.
  last.written_by <> p.xmin and p.available_at <= ledger.now() + ledger.partition_backoff_span(100) as has_expired,
  f.weight, (select s.since from ledger.silent_topic s where k.settled_by = 'topic' and s.topic = k.topic) as silent_since,
  before.items as before, before.items >= $3::integer as before_capped, ledger.clock_rate() as clock_rate,
  ledger.machine_now() as machine_now,
  coalesce(current_setting('ledger.clock', true), '') <> '' as is_simulated,
  pg_is_in_recovery() as is_standby, current_setting('default_transaction_read_only')::boolean as is_read_only,
  current_database() as database
from ledger.pending p
join ledger.flow f on f.flow_no = p.flow_no
join ledger.kind k on k.kind_no = f.kind_no
left join lateral (
  select t.event, t.detail ->> 'reason' as reason, t.xmin as written_by,
    case when t.event = 8 /* snoozed */ and t.run_no is null and t.detail -> 'until' = to_jsonb(p.available_at) then a.name end as put_off_by
  from ledger.transition t
  left join ledger.actor a on a.actor_no = t.actor_no
  where t.item_no = p.item_no and t.effective_date = p.effective_date
    and t.event not in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
    and t.event <> 15 /* revised */
  order by t.at desc limit 1
) last on true
cross join lateral (
  select coalesce(sum(c.size - c.started), 0)::bigint as items
  from ledger.claim c where c.flow_no = f.flow_no and c.closed_at is null
) handed
cross join lateral (
  select coalesce(sum(bit_length(r.ended) - bit_count(r.ended)), 0)::bigint as items
  from ledger.run r where r.flow_no = f.flow_no and r.closed_at is null
) running
cross join lateral (
  select coalesce(sum(c.items), 0)::bigint as granted, count(*) as grants from ledger.credit c
  where c.topic = k.topic and c.granted_until > ledger.machine_now()
) credit
cross join lateral (
  select coalesce(sum(c.size - c.started), 0)::bigint as items, max(c.claimed_at) as last_at
  from ledger.claim c
  where c.topic = k.topic and c.closed_at is null and c.batch_max is null and c.topic_actor_no is null
) outstanding
left join lateral (
  select s.name, s.host, s.seen_at
  from ledger.process_status s
  where s.role = case when k.dispatch = 'direct' then 'direct_worker' else 'worker' end and k.name = any (s.kinds) and s.status <> 'live'
  order by s.seen_at desc limit 1
) handler on true
left join lateral (
  select i.id, r.reason as review_reason, w.available_at as retry_at
  from ledger.held_key h
  join ledger.due_item i on i.effective_date = h.effective_date and i.item_no = h.item_no
  left join ledger.review r on r.item_no = h.item_no
  left join ledger.pending w on w.item_no = h.item_no and w.state = 4 /* RetryableFailure */
  where h.serial = p.serial and h.item_no <> p.item_no
) holder on true
left join lateral (
  -- It goes on until the last of them ends.
  select a.name as by, w.tenant, w.kind, w.lane,
    nullif(max(coalesce(w.paused_until, 'infinity')) over (), 'infinity') as paused_until
  from ledger.pause w join ledger.actor a on a.actor_no = w.actor_no
  where f.paused_at is not null and w.resumed_at is null and w.tenant = k.tenant
    and coalesce(w.kind = k.name, true) and coalesce(w.lane = f.lane, true)
  order by w.kind is not null, w.lane is not null limit 1
) widest on true
cross join lateral (
  select least(count(*), $3::integer) as items
  from (
    (select from ledger.pending q
     where q.flow_no = p.flow_no and q.state = 1 /* Scheduled */ and q.serial is null and q.available_at <= ledger.now()
       and q.available_at <= p.available_at and (q.available_at, q.item_no >> 10) < (p.available_at, p.item_no >> 10)
     limit $3::integer)
    union all
    (select from ledger.pending q
     where q.flow_no = p.flow_no and q.state = 4 /* RetryableFailure */ and q.serial is null and q.available_at <= ledger.now()
       and q.available_at < p.available_at
     limit $3::integer)
    union all
    (select from ledger.pending q
     where q.flow_no = p.flow_no and q.serial is not null and q.available_at <= ledger.now() and q.available_at < p.available_at
     limit $3::integer)
  ) q
) before
where p.item_no = $1::bigint
