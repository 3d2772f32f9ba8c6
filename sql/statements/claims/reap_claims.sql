-- Close claims past their deadline: items not started go from Claimed back to Scheduled, or to ManualReview if their kind says so.
-- returns: one
-- roles: reconciler, upkeep
-- $1 fences bigint[]
-- $2 claimed_ats timestamptz[]
-- $3 actor_no bigint
-- $4 first_claimed_at timestamptz
-- $5 last_claimed_at timestamptz
-- index: claim_pkey
-- locks: partition_backoff rows (topic and partition ascending); its claims are locked by lock_late_claims, in a statement before
with locked_default as (select from ledger.due_item_default),
closed as (
  update ledger.claim c
  set closed_at = ledger.now()
  from unnest($1::bigint[], $2::timestamptz[]) l (fence, claimed_at)
  where c.fence = l.fence and c.claimed_at is not distinct from l.claimed_at and c.claimed_at between $4::timestamptz and $5::timestamptz
    and c.closed_at is null
  returning c.item_no[c.started + 1:] as item_no, c.effective_date[c.started + 1:] as effective_date,
    c.attempt[c.started + 1:] as attempt, c.starts[c.started + 1:] as starts, c.batch_max, c.published_at, c.topic, c.partition
),
-- Claims of a partition that expire during its backoff share it: one backoff is counted once.
backoff as (
  insert into ledger.partition_backoff as b (topic, partition, expirations, available_at)
  select distinct c.topic, c.partition, 1, ledger.now() + ledger.partition_backoff_span(1)
  from closed c where c.published_at is not null and c.partition >= 0
  order by 1, 2
  on conflict (topic, partition) do update
  set expirations = case when b.available_at > ledger.now() then b.expirations else least(b.expirations + 1, 100) end,
    available_at = case when b.available_at > ledger.now() then b.available_at
      else ledger.now() + ledger.partition_backoff_span(b.expirations + 1) end
  returning b.topic, b.partition, b.available_at
),
grouped as (
  select g.is_published, g.available_at,
    array_agg(row(g.effective_date, g.item_nos, g.attempt, g.starts, g.batch_max)::ledger.item_group) as groups
  from (
    select c.published_at is not null as is_published, b.available_at, u.effective_date, u.attempt, u.starts, c.batch_max,
      array_agg(u.item_no) as item_nos
    from closed c
    left join backoff b on c.published_at is not null and b.topic = c.topic and b.partition = c.partition
    cross join lateral unnest(c.item_no, c.effective_date, c.attempt, c.starts) u (item_no, effective_date, attempt, starts)
    group by c.published_at is not null, b.available_at, u.effective_date, u.attempt, u.starts, c.batch_max
  ) g
  group by g.is_published, g.available_at
),
judged as materialized (
  select i.*, g.available_at, g.is_published and k.queue_late = 'park' as parks
  from grouped g
  cross join lateral ledger.find_items(g.groups) i
  join ledger.flow f on f.flow_no = i.flow_no
  join ledger.kind k on k.kind_no = f.kind_no
),
back as (
  insert into ledger.pending (
    item_no, effective_date, flow_no, available_at, state, attempt, starts, batch_max, serial, serial_due_at, overlap)
  select j.item_no, j.effective_date, j.flow_no, greatest(ledger.not_before(j.item_no, j.due_at), j.available_at), 1 /* Scheduled */,
    j.attempt - 1, j.starts - 1, j.batch_max, j.serial, case when j.serial is not null then j.due_at end, j.overlap
  from judged j where not j.parks
  returning flow_no, available_at
),
journal as (
  insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
  select j.effective_date, j.item_no, 9 /* parked */, j.attempt, $3::bigint, ledger.now(),
    jsonb_build_object('reason', 'no worker started it before its queue deadline')
  from judged j where j.parks
),
parked as (
  insert into ledger.review (item_no, effective_date, flow_no, parked_at, attempt, starts, reason, actor_no)
  select j.item_no, j.effective_date, j.flow_no, ledger.now(), j.attempt - 1, j.starts - 1,
    'no worker started it before its queue deadline', $3::bigint
  from judged j where j.parks
  returning 1
)
select (select count(*) from back)::integer as released, (select count(*) from parked)::integer as parked,
  (select count(*) from closed)::integer as claims
where ledger.none_lost((select coalesce(sum(cardinality(c.item_no)), 0) from closed c), (select count(*) from judged))
  and (select ledger.wake_sleepers(array_agg(b.flow_no), array_agg(b.available_at)) from back b)
