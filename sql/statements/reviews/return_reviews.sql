-- Return parked items that an actor has taken: nobody has them then. Others stay as they are.
-- returns: exactly one per input
-- roles: operator
-- $1 ids uuid[]
-- $2 actor_no bigint
-- index: due_item_id_effective_date_key, review_pkey
-- locks: review rows (for update, item_no ascending)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select a.id, a.ord, i.item_no
  from unnest($1::uuid[]) with ordinality a (id, ord) left join ledger.due_item i
    on i.id = a.id and i.effective_date = ledger.effective_date_of(a.id)
),
locked as materialized (
  select r.item_no, r.taken_by, r.taken_at
  from asked a join ledger.review r on r.item_no = a.item_no order by r.item_no for update of r
),
returned as (
  update ledger.review r set taken_by = null, taken_at = null
  from locked l
  where r.item_no = l.item_no and r.taken_by = $2::bigint
  returning r.item_no
)
select a.id,
  case when a.item_no is null then 'unknown' when l.item_no is null then 'illegal'
    when t.item_no is not null or l.taken_by is null then 'done' else 'taken' end as result,
  w.name as taken_by, case when w.name is not null then l.taken_at end as taken_at, t.item_no is not null as is_changed,
  b.name as was_taken_by
from asked a
left join locked l on l.item_no = a.item_no
left join returned t on t.item_no = a.item_no
left join ledger.actor w on w.actor_no = l.taken_by and t.item_no is null
left join ledger.actor b on b.actor_no = l.taken_by
order by a.ord
