-- Close claims past their deadline: items not started go from Claimed back to Scheduled, or to ManualReview if their kind says so.
-- returns: one
-- $1 fences bigint[]
-- $2 claimed_ats timestamptz[]
-- $3 actor_no bigint
-- $4 first_claimed_at timestamptz
-- $5 last_claimed_at timestamptz
-- index: claim_pkey, due_item_pkey
-- locks: none (its claims are locked by lock_late_claims, in a statement before)
with locked_default as (select from ledger.due_item_default),
closed as (
  update ledger.claim c
  set closed_at = ledger.now()
  from unnest($1::bigint[], $2::timestamptz[]) l (fence, claimed_at)
  where c.fence = l.fence and c.claimed_at is not distinct from l.claimed_at and c.claimed_at between $4::timestamptz and $5::timestamptz
    and c.closed_at is null
  returning c.item_no[c.started + 1:] as item_no, c.effective_date[c.started + 1:] as effective_date,
    c.attempt[c.started + 1:] as attempt, c.starts[c.started + 1:] as starts, c.batch_max, c.published_at
),
judged as materialized (
  select u.*, c.batch_max, i.flow_no, i.due_at, i.serial, i.overlap,
    c.published_at is not null and k.queue_late = 'park' as parks
  from closed c
  cross join lateral unnest(c.item_no, c.effective_date, c.attempt, c.starts) u (item_no, effective_date, attempt, starts)
  join ledger.due_item i on i.effective_date = u.effective_date and i.item_no = u.item_no
  join ledger.flow f on f.flow_no = i.flow_no
  join ledger.kind k on k.kind_no = f.kind_no
),
back as (
  insert into ledger.pending (
    item_no, effective_date, flow_no, available_at, state, attempt, starts, batch_max, serial, serial_due_at, overlap)
  select j.item_no, j.effective_date, j.flow_no, ledger.not_before(j.item_no, j.due_at), 1 /* Scheduled */,
    j.attempt - 1, j.starts - 1, j.batch_max, j.serial, case when j.serial is not null then j.due_at end, j.overlap
  from judged j where not j.parks
  returning 1
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
