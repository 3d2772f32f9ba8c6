-- Take parked items in an actor's name: those that nobody has taken, and those of one who is named. Others stay as they are.
-- returns: exactly one per input
-- roles: operator
-- $1 ids uuid[]
-- $2 instead_of text
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
  select r.item_no, r.taken_by, r.taken_at
  from asked a join ledger.review r on r.item_no = a.item_no order by r.item_no for update of r
),
taken as (
  update ledger.review r set taken_by = $3::bigint, taken_at = ledger.now()
  from locked l
  where r.item_no = l.item_no and r.taken_by is distinct from $3::bigint
    and (r.taken_by is null or r.taken_by = (select o.actor_no from ledger.actor o where o.name = $2::text))
  returning r.item_no, r.taken_by, r.taken_at
)
select a.id,
  case when a.item_no is null then 'unknown' when l.item_no is null then 'illegal'
    when coalesce(t.taken_by, l.taken_by) = $3::bigint then 'done' else 'taken' end as result,
  w.name as taken_by, coalesce(t.taken_at, l.taken_at) as taken_at, t.item_no is not null as is_changed,
  b.name as was_taken_by
from asked a
left join locked l on l.item_no = a.item_no
left join taken t on t.item_no = a.item_no
left join ledger.actor w on w.actor_no = coalesce(t.taken_by, l.taken_by)
left join ledger.actor b on b.actor_no = l.taken_by
order by a.ord
