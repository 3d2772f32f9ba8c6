-- Read items as executions, in the order given: when each was started and ended, by whom, and its evidence.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 effective_dates date[]
-- $3 item_nos bigint[]
-- index: due_item_pkey, pending_pkey, review_pkey, transition_terminal_idx
-- locks: none
with locked_default as (select from ledger.due_item_default),
item as materialized (
  select u.ord, f.kind_no, i.id, i.business_key, i.cycle, i.effective_date, i.item_no, i.due_at, i.emitted_at, i.payload, d.version as definition_version,
    coalesce(p.attempt, r.attempt, t.attempt) as attempt, p.available_at, t.at as ended_at, t.run_no, t.detail,
    coalesce(t.after_state, p.state, case when r.item_no is not null then 5 /* ManualReview */ end) as state
  from unnest($2::date[], $3::bigint[]) with ordinality u (effective_date, item_no, ord)
  cross join lateral (  -- `offset 0`: each is found by its key
    select i.* from ledger.due_item i where i.effective_date = u.effective_date and i.item_no = u.item_no offset 0
  ) i
  join ledger.flow f on f.flow_no = i.flow_no
  left join ledger.definition d on d.definition_no = i.definition_no
  left join ledger.pending p on p.item_no = i.item_no
  left join ledger.review r on r.item_no = i.item_no
  left join lateral (
    select t.at, t.attempt, t.run_no, t.detail, e.after_state
    from ledger.transition t join ledger.transition_event e on e.event = t.event
    where t.item_no = i.item_no and t.effective_date = i.effective_date
      and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
  ) t on true
  where $1::text[] is null or f.tenant = any ($1::text[])
),
-- Items in none of these are handed out; what is handed out is read only then, once.
handed_out as materialized (
  select o.item_no, o.state, o.run_no, o.started_at from ledger.open_item o
  where exists (select from item i where i.state is null)
    and o.item_no = any (array(select i.item_no from item i where i.state is null))
),
worked as materialized (
  select r.run_no, r.started_at, r.worker_no
  from (
    select array_agg(distinct coalesce(i.run_no, o.run_no)) as run_nos, min(i.emitted_at) as emitted_at,
      max(coalesce(i.ended_at, o.started_at)) as ended_at
    from item i left join handed_out o on o.item_no = i.item_no
    where coalesce(i.run_no, o.run_no) is not null
  ) w
  cross join lateral ledger.list_runs(w.run_nos, w.emitted_at, w.ended_at) r
)
select i.id, i.business_key, i.cycle, i.effective_date, i.due_at, i.definition_version, s.name as state, i.attempt, i.available_at,
  r.started_at, i.ended_at, a.name as worker,
  extract(epoch from r.started_at - i.due_at)::double precision as start_delay_seconds,
  extract(epoch from i.ended_at - r.started_at)::double precision as duration_seconds, i.detail as evidence, k.redacted_fields,
  case when k.redacted_fields <> '{}' then i.payload::text end as payload
from item i
join ledger.kind k on k.kind_no = i.kind_no
left join handed_out o on o.item_no = i.item_no
join ledger.state s on s.state = coalesce(i.state, o.state)
left join worked r on r.run_no = coalesce(i.run_no, o.run_no)
left join ledger.actor a on a.actor_no = r.worker_no
order by i.ord
