-- Make parked items pending again (ManualReview to Scheduled) with attempts counted anew; anything else is refused. A serial item waits for its key.
-- returns: exactly one per input
-- roles: operator, reconciler, upkeep
-- $1 ids uuid[]
-- $2 reason text
-- $3 actor_no bigint
-- index: due_item_id_effective_date_key, review_pkey
-- locks: review rows (for update, item_no ascending)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select a.id, a.ord, i.item_no, i.due_at, i.serial
  from unnest($1::uuid[]) with ordinality a (id, ord) left join ledger.due_item i
    on i.id = a.id and i.effective_date = ledger.effective_date_of(a.id)
),
locked as materialized (
  select r.item_no, a.due_at, a.serial
  from asked a join ledger.review r on r.item_no = a.item_no order by r.item_no for update of r
),
taken as (
  delete from ledger.review r using locked l where r.item_no = l.item_no
  returning r.item_no, r.effective_date, r.flow_no, r.attempt, l.due_at, l.serial
),
back as (
  insert into ledger.pending (
    item_no, effective_date, flow_no, available_at, state, serial, serial_due_at, overlap)
  select t.item_no, t.effective_date, t.flow_no, ledger.not_before(t.item_no, t.due_at), 1 /* Scheduled */,
    t.serial, case when t.serial is not null then t.due_at end, case when t.serial is not null then 1 end
  from taken t
  returning flow_no, available_at
),
journal as (
  insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
  select t.effective_date, t.item_no, 10 /* redriven */, t.attempt, $3::bigint, ledger.now(),
    jsonb_build_object('reason', $2::text)
  from taken t
),
refused as (
  insert into ledger.rejected_write (rejected_at, actor_no, verb, reason, item_no)
  select ledger.now(), $3::bigint, 'redrive', 'illegal', a.item_no
  from asked a where a.item_no is not null and not exists (select from taken t where t.item_no = a.item_no)
)
select a.id,
  case when a.item_no is null then 'unknown'
    when exists (select from taken t where t.item_no = a.item_no) then 'done' else 'illegal' end as result
from asked a
where (select ledger.wake_sleepers(array_agg(b.flow_no), array_agg(b.available_at)) from back b)
order by a.ord
