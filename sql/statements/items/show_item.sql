-- Show one item: its terms, its state, and its origin.
-- returns: zero or one
-- roles: auditor, operator
-- $1 id uuid
-- $2 tenants text[]
-- index: due_item_id_effective_date_key
-- locks: none
with locked_default as (select from ledger.due_item_default)
select i.id, k.tenant, k.name as kind, f.lane, i.business_key, i.cycle, i.effective_date, i.due_at, i.start_by,
  i.complete_by, i.partition_key, i.payload::text as payload, k.redacted_fields, i.labels, d.name as definition, d.version as definition_version,
  i.event_no, i.tzdata, i.nominal, i.zone, i.decision, i.smear_seconds, i.traceparent, i.emitted_at, a.name as emitted_by,
  s.name as state, coalesce(p.attempt, r.attempt, t.attempt) as attempt, p.available_at, r.reason as review_reason, r.parked_at,
  taker.name as taken_by, r.taken_at,
  o.fence, o.claimed_at, o.position, o.run_no, o.started_at, t.at as ended_at, t.detail, (w.item_no is not null) as withdrawal_requested,
  w.requested_at as withdrawal_at, asker.name as withdrawal_by, w.reason as withdrawal_reason,
  i.item_no, f.paused_at, f.pause_reason, (i.due_at <= ledger.now()) as due, k.topic, k.dispatch, ledger.now() as now
from ledger.due_item i
join ledger.flow f on f.flow_no = i.flow_no
join ledger.kind k on k.kind_no = f.kind_no
join ledger.actor a on a.actor_no = i.actor_no
left join ledger.definition d on d.definition_no = i.definition_no
left join ledger.pending p on p.item_no = i.item_no
left join ledger.review r on r.item_no = i.item_no
left join ledger.actor taker on taker.actor_no = r.taken_by
left join ledger.withdrawal w on w.item_no = i.item_no
left join ledger.actor asker on asker.actor_no = w.actor_no
left join ledger.transition t on t.item_no = i.item_no and t.effective_date = i.effective_date
  and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
left join ledger.transition_event e on e.event = t.event
left join lateral (
  select o.fence, o.claimed_at, o.position, o.run_no, o.started_at, o.state from ledger.open_item o
  where o.item_no = i.item_no and p.item_no is null and r.item_no is null and t.item_no is null
  limit 1
) o on true
left join ledger.state s on s.state = coalesce(e.after_state, p.state, case when r.item_no is not null then 5 /* ManualReview */ end, o.state)
where i.id = $1::uuid and i.effective_date = ledger.effective_date_of($1::uuid)
  and ($2::text[] is null or k.tenant = any ($2::text[]))
