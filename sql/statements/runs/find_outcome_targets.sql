-- Find the item and run of each outcome reported by topic, and how the item ended, if it has.
-- returns: zero or more, one per input in input order
-- $1 fences bigint[]
-- $2 claimed_ats timestamptz[]
-- $3 tokens text[]
-- $4 positions integer[]
-- $5 items uuid[]
-- $6 first_claimed_at timestamptz
-- $7 last_claimed_at timestamptz
-- index: claim_pkey, run_fence_idx, due_item_pkey, transition_terminal_idx, transition_item_idx
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
  select a.*, c.size, c.topic_actor_no, c.closed_at, c.item_no[1:] as item_no, c.effective_date[1:] as effective_date,
    c.attempt[1:] as attempt, case when c.fence is null then ledger.has_claim(a.fence) else true end as is_given
  from asked a
  left join ledger.claim c on c.fence = a.fence and c.claimed_at is not distinct from a.claimed_at
    and c.claimed_at between $6::timestamptz and $7::timestamptz and c.token = a.token
),
run as materialized (
  select c.*, r.run_no, r.started_at, r.from_position, r.to_position, r.ended, r.lease_seconds, r.closed_at as ended_at
  from claim c
  -- The statement that starts the run of such a claim closes the claim, so both have the same time.
  left join ledger.run r on r.fence = c.fence and r.started_at = c.closed_at and r.worker_no = c.topic_actor_no
)
select c.is_given, c.size, c.topic_actor_no, coalesce(i.id = u.item, false) as matches, i.item_no,
  case when i.id = u.item then c.attempt[u.position] end as attempt, c.run_no, c.started_at, c.claimed_at, c.from_position, c.to_position,
  c.lease_seconds, c.closed_at is null as waiting, c.run_no is not null and c.ended_at is null as open,
  b.ended, e.event as ended_event, e.detail as ended_detail, k.backoff_base_seconds, k.backoff_cap_seconds
from run c
cross join lateral unnest(c.ords, c.positions, c.items) u (ord, position, item)
left join ledger.due_item i on c.topic_actor_no is not null and u.position > 0
  and i.effective_date = c.effective_date[u.position] and i.item_no = c.item_no[u.position]
left join ledger.flow f on f.flow_no = i.flow_no
left join ledger.kind k on k.kind_no = f.kind_no
cross join lateral (
  select coalesce(
    case when i.id = u.item then get_bit(c.ended, u.position - c.from_position) = 1 end, false) as ended
) b
left join lateral (
  select t.event, t.detail from ledger.transition t
  where b.ended and t.item_no = i.item_no and t.effective_date = i.effective_date and t.run_no = c.run_no
    and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
  union all
  select t.event, t.detail from ledger.transition t
  where b.ended and t.item_no = i.item_no and t.effective_date = i.effective_date and t.run_no = c.run_no
    and t.event not in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
  limit 1
) e on true
order by u.ord
