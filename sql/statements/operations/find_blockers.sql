-- Find what blocks a pending item besides its time: its flow's limits and circuit, its topic's credit or silent topic, its key's holder, and which processes could claim it.
-- returns: zero or one
-- roles: auditor, operator
-- $1 item_no bigint
-- $2 topic_window_items integer
-- index: pending_pkey, claim_flow_idx, run_flow_idx, credit_pkey, held_key_pkey, transition_item_idx
-- locks: none
with locked_default as (select from ledger.due_item_default)
select f.rate_per_second, ledger.tokens_now(f.rate_per_second, f.tokens, f.tokens_at) as tokens, f.concurrency_max,
  case when k.settled_by = 'topic' then coalesce(f.window_items, $2::integer) else f.window_items end as window_items,
  f.circuit, f.circuit_at, f.circuit_rest_seconds, k.settled_by, k.dispatch,
  handed.items as handed_out, running.items as running,
  (select coalesce(sum(c.items), 0)::bigint from ledger.credit c
   where c.topic = k.topic and c.granted_until > ledger.machine_now()) as granted,
  p.available_at = 'infinity' as blocked,
  (select i.id from ledger.held_key h
   join ledger.due_item i on i.effective_date = h.effective_date and i.item_no = h.item_no
   where h.serial = p.serial and h.item_no <> p.item_no) as behind,
  coalesce((
    select t.event from ledger.transition t
    where t.item_no = p.item_no and t.effective_date = p.effective_date
      and t.event not in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
    order by t.at desc limit 1), 0) = 8 /* snoozed */ as snoozed,
  f.weight, (select s.since from ledger.silent_topic s where k.settled_by = 'topic' and s.topic = k.topic) as silent_since,
  claimers.live as claimers, claimers.seen_at as claimer_seen_at
from ledger.pending p
join ledger.flow f on f.flow_no = p.flow_no
join ledger.kind k on k.kind_no = f.kind_no
cross join lateral (
  select coalesce(sum(c.size - c.started), 0)::bigint as items
  from ledger.claim c where c.flow_no = f.flow_no and c.closed_at is null
) handed
cross join lateral (
  select coalesce(sum(bit_length(r.ended) - bit_count(r.ended)), 0)::bigint as items
  from ledger.run r where r.flow_no = f.flow_no and r.closed_at is null
) running
cross join lateral (
  select count(*) filter (where s.status = 'live') as live, max(s.seen_at) as seen_at
  from ledger.process_status s
  where s.role = case k.dispatch when 'direct' then 'direct_worker' else 'allocator' end
) claimers
where p.item_no = $1::bigint
