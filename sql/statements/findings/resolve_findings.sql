-- Record the resolution of open findings by a person, who must not be the one that proposed the repair of one.
-- returns: exactly one per input
-- roles: approver
-- $1 ids uuid[]
-- $2 resolution text
-- $3 reason text
-- $4 actor_no bigint
-- $5 tenants text[]
-- index: finding_pkey, repair_finding_idx
-- locks: finding rows (for update, id ascending)
with locked as materialized (
  select f.id, f.resolution, f.opened_count
  from ledger.finding f where f.id = any($1::uuid[]) and ($5::text[] is null or f.tenant = any ($5::text[])) order by f.id for update
),
own as materialized (
  select l.id from locked l
  where exists (
    select from ledger.repair r
    where r.finding_id = l.id and r.opened_count = l.opened_count and r.status = 'proposed' and r.proposed_by = $4::bigint)
),
resolved as (
  update ledger.finding f set
    resolution = $2::text, reason = $3::text, resolved_by = $4::bigint, closed_at = ledger.now(),
    taken_by = null, taken_at = null
  from locked l
  where f.id = l.id and l.resolution = 'open' and $2::text not in ('open', 'repaired')
    and not exists (select from own o where o.id = l.id)
  returning f.id
)
select u.id,
  case
    when l.id is null then 'unknown'
    when s.id is not null then 'done'
    when l.resolution <> 'open' then l.resolution
    else 'own'
  end as result
from unnest($1::uuid[]) with ordinality u (id, ord)
left join locked l on l.id = u.id
left join resolved s on s.id = u.id
order by u.ord
