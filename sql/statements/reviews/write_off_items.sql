-- Write parked items off (ManualReview to WrittenOff) in a named person's name; anything else is refused.
-- returns: exactly one per input
-- roles: operator, upkeep
-- $1 ids uuid[]
-- $2 reason text
-- $3 actor_no bigint
-- index: due_item_id_effective_date_key, review_pkey
-- locks: review rows (for update, item_no ascending)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select a.id, a.ord, i.item_no
  from unnest($1::uuid[]) with ordinality a (id, ord) left join ledger.due_item i
    on i.id = a.id and i.effective_date = ledger.effective_date_of(a.id)
),
locked as materialized (
  select r.item_no from asked a join ledger.review r on r.item_no = a.item_no order by r.item_no for update of r
),
taken as (
  delete from ledger.review r using locked l where r.item_no = l.item_no
  returning r.item_no, r.effective_date, r.attempt
),
journal as (
  insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
  select t.effective_date, t.item_no, 14 /* written_off */, t.attempt, $3::bigint, ledger.now(),
    jsonb_build_object('reason', $2::text)
  from taken t
),
refused as (
  insert into ledger.rejected_write (rejected_at, actor_no, verb, reason, item_no)
  select ledger.now(), $3::bigint, 'write_off', 'illegal', a.item_no
  from asked a where a.item_no is not null and not exists (select from taken t where t.item_no = a.item_no)
)
select a.id,
  case when a.item_no is null then 'unknown'
    when exists (select from taken t where t.item_no = a.item_no) then 'done' else 'illegal' end as result
from asked a order by a.ord
