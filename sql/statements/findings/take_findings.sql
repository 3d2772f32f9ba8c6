-- Take open findings in an actor's name: those that nobody has taken, and those of one who is named. Others stay as they are.
-- returns: exactly one per input
-- roles: approver
-- $1 ids uuid[]
-- $2 instead_of text
-- $3 actor_no bigint
-- $4 tenants text[]
-- index: finding_pkey
-- locks: finding rows (for update, id ascending)
with locked as materialized (
  select f.id, f.closed_at, f.taken_by, f.taken_at
  from ledger.finding f where f.id = any ($1::uuid[]) and ($4::text[] is null or f.tenant = any ($4::text[])) order by f.id for update
),
taken as (
  update ledger.finding f set taken_by = $3::bigint, taken_at = ledger.now()
  from locked l
  where f.id = l.id and l.closed_at is null and f.taken_by is distinct from $3::bigint
    and (f.taken_by is null or f.taken_by = (select o.actor_no from ledger.actor o where o.name = $2::text))
  returning f.id, f.taken_by, f.taken_at
)
select u.id,
  case when l.id is null then 'unknown' when l.closed_at is not null then 'illegal'
    when coalesce(t.taken_by, l.taken_by) = $3::bigint then 'done' else 'taken' end as result,
  w.name as taken_by, coalesce(t.taken_at, l.taken_at) as taken_at, t.id is not null as is_changed,
  b.name as was_taken_by
from unnest($1::uuid[]) with ordinality u (id, ord)
left join locked l on l.id = u.id
left join taken t on t.id = u.id
left join ledger.actor w on w.actor_no = coalesce(t.taken_by, l.taken_by)
left join ledger.actor b on b.actor_no = l.taken_by
order by u.ord
