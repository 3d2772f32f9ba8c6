-- Find the item and run of each reported outcome, and how the item ended, if it has. A claim is settled by its topic, or by whom pulled it.
-- returns: zero or more, one per input in input order
-- roles: outcome_intake, pull_worker
-- $1 fences bigint[]
-- $2 claimed_ats timestamptz[]
-- $3 tokens text[]
-- $4 positions integer[]
-- $5 items uuid[]
-- $6 first_claimed_at timestamptz
-- $7 last_claimed_at timestamptz
-- $8 first_item uuid
-- $9 last_item uuid
-- $10 tenants text[]
-- index: claim_pkey, due_item_id_effective_date_key
-- locks: none (its runs are locked by lock_topic_runs, in a statement before: these bits must be newer)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select a.fence, a.claimed_at, a.token, array_agg(a.ord) as ords, array_agg(a.position) as positions,
    array_agg(a.item) as items
  from unnest($1::bigint[], $2::timestamptz[], $3::text[], $4::integer[], $5::uuid[])
    with ordinality a (fence, claimed_at, token, position, item, ord)
  group by a.fence, a.claimed_at, a.token
),
-- The arrays are copied once a claim, not once an item.
claim as materialized (
  select a.*, c.size, case when c.partition < 0 then c.allocator_no else c.topic_actor_no end as settler_no,
    c.partition < 0 as pulled, c.closed_at, c.item_no[1:] as item_no, c.effective_date[1:] as effective_date,
    c.attempt[1:] as attempt
  from asked a
  left join ledger.claim c on c.fence = a.fence and c.claimed_at is not distinct from a.claimed_at
    and c.claimed_at between $6::timestamptz and $7::timestamptz and c.token = a.token
),
run as materialized (
  select c.*, r.run_no, case when r.run_no is not null then c.closed_at end as started_at, r.from_position, r.to_position, r.ended, r.lease_seconds, r.closed_at as ended_at
  from claim c
  -- The statement that starts the run of such a claim closes the claim, so both have the same time.
  cross join lateral ledger.find_topic_run(c.fence, c.closed_at, c.settler_no) r
),
target as materialized (
  select u.ord, c.size, c.settler_no, c.pulled, coalesce(i.id = u.item, false) as matches, i.item_no, i.effective_date, i.flow_no, i.due_at, i.traceparent,
    case when i.id = u.item then c.attempt[u.position] end as attempt, c.run_no, c.started_at, c.claimed_at,
    c.from_position, c.to_position, c.lease_seconds, c.closed_at is null as waiting,
    c.run_no is not null and c.ended_at is null as open,
    coalesce(
      case when i.id = u.item then get_bit(c.ended, u.position - c.from_position) = 1 end, false) as ended
  from run c
  cross join lateral unnest(c.ords, c.positions, c.items) u (ord, position, item)
  -- Ids begin with the date. `offset 0`: otherwise a plan made while there were few rows reads every item of these dates.
  left join lateral (
    select i.id, i.item_no, i.effective_date, i.flow_no, i.due_at, i.traceparent
    from ledger.due_item i
    where i.id = u.item and i.effective_date between ledger.effective_date_of($8::uuid) and ledger.effective_date_of($9::uuid)
      and ($10::text[] is null or exists (
        select from ledger.flow f where f.flow_no = i.flow_no and f.tenant = any ($10::text[])))
    offset 0
  ) i on c.settler_no is not null and u.position > 0
    and i.effective_date = c.effective_date[u.position] and i.item_no = c.item_no[u.position]
),
ended as materialized (
  select array_agg(t.ord) as ords, array_agg(t.effective_date) as effective_dates, array_agg(t.item_no) as item_nos,
    array_agg(t.run_no) as run_nos
  from target t
  where t.ended
)
select t.size, t.settler_no, t.pulled, t.matches, t.item_no, t.attempt, t.run_no, t.started_at, t.claimed_at, t.from_position,
  t.to_position, t.lease_seconds, t.waiting, t.open, k.outcome_topic, t.ended, e.event as ended_event,
  e.detail as ended_detail, k.backoff_base_seconds, k.backoff_cap_seconds, k.name as kind, t.due_at, t.traceparent
from target t
left join ledger.flow f on f.flow_no = t.flow_no
left join ledger.kind k on k.kind_no = f.kind_no
left join (
  select e.*
  from ended d
  cross join lateral ledger.find_endings(d.ords, d.effective_dates, d.item_nos, d.run_nos) e
) e on e.ord = t.ord
order by t.ord
