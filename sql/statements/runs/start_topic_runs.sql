-- Start claims settled by topic, as one run each, if an outcome was reported before Kafka's acknowledgement was marked (Claimed to Running).
-- returns: zero or more
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
-- $10 outcome_topics text[]
-- $11 any_topic boolean
-- $12 tenants text[]
-- index: claim_pkey, due_item_id_effective_date_key
-- locks: claim rows (for update, fence ascending)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select u.fence, u.claimed_at, u.token, array_agg(u.position) as positions, array_agg(u.item) as items,
    array_agg(u.outcome_topic) as outcome_topics
  from unnest($1::bigint[], $2::timestamptz[], $3::text[], $4::integer[], $5::uuid[], $10::text[])
    u (fence, claimed_at, token, position, item, outcome_topic)
  group by u.fence, u.claimed_at, u.token
),
-- A reported outcome that names the item at this position of the claim proves that its record was read, if it is from the
-- topic that the kind names for outcomes, or under a key.
named as materialized (
  select c.fence, c.claimed_at
  from asked a
  join ledger.claim c on c.fence = a.fence and c.claimed_at is not distinct from a.claimed_at
    and c.claimed_at between $6::timestamptz and $7::timestamptz and c.token = a.token
  where c.topic_actor_no is not null and c.published_at is null and c.started = 0
    and exists (
      select from unnest(a.positions, a.items, a.outcome_topics) u (position, item, outcome_topic)
      cross join lateral (  -- ids begin with the date; `offset 0` as in find_outcome_targets
        select i.item_no, i.flow_no
        from ledger.due_item i
        where i.id = u.item and i.effective_date between ledger.effective_date_of($8::uuid) and ledger.effective_date_of($9::uuid)
        offset 0
      ) i
      join ledger.flow f on f.flow_no = i.flow_no
      join ledger.kind k on k.kind_no = f.kind_no
        and ($11::boolean or k.outcome_topic is not distinct from u.outcome_topic)
        and ($12::text[] is null or k.tenant = any ($12::text[]))
      where i.item_no = c.item_no[u.position])
),
unmarked as materialized (
  select c.fence, c.claimed_at
  from named n
  join ledger.claim c on c.fence = n.fence and c.claimed_at is not distinct from n.claimed_at
    and c.claimed_at between $6::timestamptz and $7::timestamptz
  where c.published_at is null and c.closed_at is null and c.started = 0
  order by c.fence
  for update of c
),
opened as (
  update ledger.claim c
  set started = c.size, closed_at = ledger.now()
  from unmarked u
  where c.fence = u.fence and c.claimed_at is not distinct from u.claimed_at and c.claimed_at between $6::timestamptz and $7::timestamptz
    and c.closed_at is null and c.started = 0
  returning c.fence, c.claimed_at, c.size, c.topic_actor_no, c.lease_seconds, c.run_seconds, c.flow_no
)
insert into ledger.run (
  started_at, fence, claimed_at, from_position, to_position, worker_no, lease_until, lease_seconds, ended, flow_no, run_until)
select ledger.now(), o.fence, o.claimed_at, 1, o.size, o.topic_actor_no,
  ledger.machine_now() + make_interval(secs => least(o.lease_seconds, o.run_seconds)), o.lease_seconds,
  repeat('0', o.size)::bit varying, o.flow_no, ledger.machine_now() + make_interval(secs => o.run_seconds)
from opened o
order by o.fence
returning run_no, fence
