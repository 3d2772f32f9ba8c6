-- List completed items of effective dates that neither a run nor a repair had, or that their run had with another worker or later.
-- returns: zero or more
-- roles: reconciler
-- $1 from_date date
-- $2 to_date date
-- $3 limit integer
-- index: transition_terminal_idx, claim_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
ended as materialized (
  select t.item_no, t.effective_date, t.run_no, t.actor_no, t.at, t.detail ->> 'repair' as repair
  from ledger.transition t
  where t.effective_date >= $1::date and t.effective_date < $2::date and t.event = 5 /* completed */
),
held as materialized (
  select r.run_no, r.worker_no, r.started_at, u.item_no
  from (select array_agg(distinct e.run_no) as run_nos, min(e.at) as first_at, max(e.at) as last_at
    from ended e where e.run_no is not null) e
  cross join lateral ledger.list_runs(e.run_nos, e.first_at - interval '1 day', e.last_at) r
  join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
  cross join lateral unnest(c.item_no[r.from_position:r.to_position]) u (item_no)
),
contradicted as materialized (
  select e.*, h.run_no is not null as was_held
  -- A full join is hashed or merged. Without statistics a left join is a nested loop over both, in quadratic time.
  from ended e
  full join held h on h.run_no = e.run_no and h.item_no = e.item_no
  where e.item_no is not null and (h.run_no is null or h.worker_no <> e.actor_no or e.at < h.started_at)
)
select uuid_send(i.id) as id, i.flow_no, i.business_key, i.effective_date, i.due_at, e.run_no, e.at, e.was_held, a.name as worker
from contradicted e
join ledger.actor a on a.actor_no = e.actor_no
join ledger.due_item i on i.effective_date = e.effective_date and i.item_no = e.item_no
where not (e.run_no is null and exists (
  select from ledger.repair p
  where p.id = case when e.repair ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then e.repair::uuid end
    and p.status = 'executed' and p.executed_by = e.actor_no and p.outcome ->> 'completed' = i.id::text))
order by e.effective_date, e.item_no
limit $3::integer
