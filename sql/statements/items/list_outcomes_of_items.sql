-- List items by date and number with what ended each, in this order.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 effective_dates date[]
-- $2 item_nos bigint[]
-- index: due_item_pkey, transition_terminal_idx, pending_pkey, review_pkey, finding_item_idx, repair_finding_idx, run_pkey, claim_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default)
select i.effective_date, i.item_no, uuid_send(i.id) as id, i.flow_no, i.business_key, i.cycle, i.due_at, i.complete_by,
  i.definition_no, i.event_no, i.emitted_at,
  -- With the text, what reconciler.expect.item_terms.terms_digest digests of a draft.
  timestamptz_send(coalesce(i.start_by, '-infinity')) || timestamptz_send(coalesce(i.complete_by, '-infinity'))
    || float8send(coalesce(i.smear_seconds, -1)) as times,
  concat_ws(
    chr(31), i.business_key, i.cycle, coalesce(i.partition_key, chr(30)), coalesce(i.labels::text, chr(30)),
    coalesce(i.nominal, chr(30)), coalesce(i.zone, chr(30)), coalesce(i.decision, chr(30)), f.lane,
    coalesce(nullif(i.overlap, 1 /* waits, as items of an ordered kind do */)::text, chr(30)), i.payload::text) as terms,
  t.event, t.at as ended_at,
  case when a.kind not in ('person', 'key', 'oidc') or ledger.is_decider(a.kind, a.name) then a.kind end as ended_by,
  case when t.event <> 5 /* completed */ then t.detail ->> 'reason' end as ended_for,
  t.event = 11 /* cancelled */ and a.kind = 'reconciler' and exists (
    select from (select f.id from ledger.finding f where f.item_id = i.id offset 0) f
    join ledger.repair p on p.finding_id = f.id
    where p.action = 'cancel' and p.status = 'executed' and p.executed_by = t.actor_no) as is_repair,
  -- What was withdrawn while it was handed out ends when its run starts, and the run says so.
  t.run_no is not null and not exists (
    select from ledger.run r
    join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
    where r.run_no = t.run_no and r.started_at = t.at
      and get_bit(r.withdrawn, array_position(c.item_no[r.from_position:r.to_position], t.item_no) - 1) = 1) as has_run,
  i.overlap, i.tzdata,
  (exists (select from ledger.pending p where p.item_no = i.item_no))::integer
    + (exists (select from ledger.review r where r.item_no = i.item_no))::integer as places
from unnest($1::date[], $2::bigint[]) u (effective_date, item_no)
join ledger.due_item i on i.effective_date = u.effective_date and i.item_no = u.item_no
left join ledger.flow f on f.flow_no = i.flow_no
left join ledger.transition t
  on t.effective_date = i.effective_date and t.item_no = i.item_no
  and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
left join ledger.actor a on a.actor_no = t.actor_no and t.event <> 5 /* completed */
order by i.effective_date, i.item_no
