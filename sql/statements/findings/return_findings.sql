-- Return open findings that an actor has taken: nobody has them then. Others stay as they are.
-- returns: exactly one per input
-- roles: approver
-- $1 ids uuid[]
-- $2 actor_no bigint
-- $3 tenants text[]
-- index: finding_pkey
-- locks: finding rows (for update, id ascending)
with locked as materialized (
  select f.id, f.closed_at, f.taken_by, f.taken_at
  from ledger.finding f where f.id = any ($1::uuid[]) and ($3::text[] is null or f.tenant = any ($3::text[])) order by f.id for update
),
returned as (
  update ledger.finding f set taken_by = null, taken_at = null
  from locked l
  where f.id = l.id and f.taken_by = $2::bigint
  returning f.id
)
select u.id,
  case when l.id is null then 'unknown' when l.closed_at is not null then 'illegal'
    when t.id is not null or l.taken_by is null then 'done' else 'taken' end as result,
  w.name as taken_by, case when w.name is not null then l.taken_at end as taken_at, t.id is not null as is_changed,
  b.name as was_taken_by
from unnest($1::uuid[]) with ordinality u (id, ord)
left join locked l on l.id = u.id
left join returned t on t.id = u.id
left join ledger.actor w on w.actor_no = l.taken_by and t.id is null
left join ledger.actor b on b.actor_no = l.taken_by
order by u.ord
