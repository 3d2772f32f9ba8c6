-- List transitions of items of effective dates that are not as a run or a repair has them, each with its item and why.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 from_date date
-- $2 to_date date
-- $3 item_nos bigint[]
-- $4 limit integer
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default),
ended as materialized (
  select t.item_no, t.effective_date, t.event, t.attempt, t.run_no, t.actor_no, t.at, t.detail ->> 'repair' as repair,
    t.event = 8 /* snoozed */ and t.run_no is null and t.detail ? 'until' as is_put_off
  from ledger.transition t
  where t.effective_date >= $1::date and t.effective_date < $2::date and t.item_no = any($3::bigint[])
),
held as materialized (
  select r.run_no, r.worker_no, r.started_at, r.closed_at, u.item_no, u.attempt
  from (select array_agg(distinct e.run_no) as run_nos, min(e.at) as first_at, max(e.at) as last_at
    from ended e where e.run_no is not null) e
  cross join lateral ledger.list_runs(e.run_nos, e.first_at - interval '1 day', e.last_at) r
  join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
  cross join lateral unnest(c.item_no[r.from_position:r.to_position], c.attempt[r.from_position:r.to_position]) u (item_no, attempt)
),
judged as materialized (
  select e.*,
    case
      when e.run_no is null then 'no_run'
      when h.run_no is null then 'not_held'
      when e.event = 5 /* completed */ and h.worker_no <> e.actor_no then 'worker'
      when e.attempt <> h.attempt then 'attempt'
      when e.at < h.started_at or e.at > h.closed_at and e.at <= ledger.now() then 'time'
      else 'event'
    end as fault
  -- A full join is hashed or merged. Without statistics a left join is a nested loop over both, in quadratic time.
  from ended e
  full join held h on h.run_no = e.run_no and h.item_no = e.item_no
  where e.item_no is not null and (
    h.run_no is null or e.at < h.started_at or e.at > h.closed_at and e.at <= ledger.now() or e.attempt <> h.attempt
    or e.event = 5 /* completed */ and h.worker_no <> e.actor_no
    or e.event not in (3 /* released */, 5 /* completed */, 6 /* failed */, 7 /* timed_out */, 8 /* snoozed */, 9 /* parked */,
      11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */))
),
-- Outside of a run none is counted: an attempt is one that a run had, or that a claim would have had which nobody started.
uncounted as materialized (
  select e.effective_date, e.item_no, e.event
  from ended e
  where e.run_no is null and e.attempt > 0 and not exists (
    select from ledger.transition t
    where t.effective_date = e.effective_date and t.item_no = e.item_no and t.run_no is not null
      and t.attempt >= e.attempt - case when e.event = 9 /* parked */ then 1 else 0 end)
    and not (e.event = 9 /* parked */ and e.attempt = 1)
)
select uuid_send(i.id) as id, i.flow_no, i.business_key, i.effective_date, i.due_at, e.event, e.run_no, e.at,
  case when e.fault <> 'no_run' or e.event < 9 /* parked */ and not e.is_put_off or e.event > 16 /* recovered */ then e.fault
    when e.at < i.emitted_at then 'emission' else 'attempt' end as fault, a.name as actor
from judged e
left join ledger.actor a on a.actor_no = e.actor_no
join ledger.due_item i on i.effective_date = e.effective_date and i.item_no = e.item_no
where case
  -- A person put it off, or a service, outside of a run.
  when e.is_put_off and a.kind in ('person', 'service', 'api', 'key', 'oidc') then e.at < i.emitted_at or (e.effective_date, e.item_no, e.event) in (
    select u.effective_date, u.item_no, u.event from uncounted u)
  when e.run_no is not null or e.event between 6 /* failed */ and 8 /* snoozed */ then true
  when e.event < 5 /* completed */ or e.event > 16 /* recovered */ then true
  when e.event <> 5 /* completed */ then e.at < i.emitted_at or (e.effective_date, e.item_no, e.event) in (
    select u.effective_date, u.item_no, u.event from uncounted u)
  else not exists (
    select from ledger.repair p
    where p.id = case when e.repair ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then e.repair::uuid end
      and p.status = 'executed' and p.executed_by = e.actor_no and p.outcome ->> 'completed' = i.id::text)
  end
order by e.effective_date, e.item_no
limit $4::integer
