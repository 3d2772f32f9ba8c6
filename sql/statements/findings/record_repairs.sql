-- Record repairs as proposed; a known one does not change.
-- returns: exactly one per input
-- roles: approver, reconciler
-- $1 ids uuid[]
-- $2 finding_ids uuid[]
-- $3 actions text[]
-- $4 opened_counts integer[]
-- $5 commands text[]
-- $6 actor_no bigint
-- index: repair_pkey
-- locks: repair rows (id ascending)
with made as (
  insert into ledger.repair (id, finding_id, action, opened_count, command, status, proposed_at, proposed_by)
  select u.id, u.finding_id, u.action, u.opened_count, u.command::jsonb, 'proposed', ledger.now(), $6::bigint
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::integer[], $5::text[])
    u (id, finding_id, action, opened_count, command)
  order by u.id
  on conflict (id) do nothing
  returning id, status
)
select u.id, coalesce(m.status, r.status, 'proposed') as status, m.id is not null as created
from unnest($1::uuid[]) with ordinality u (id, ord)
left join made m on m.id = u.id
left join ledger.repair r on r.id = u.id
order by u.ord
