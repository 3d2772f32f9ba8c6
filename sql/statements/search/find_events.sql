-- Find the caller's events with an id, whatever their source, among the first sources of each tenant, up to a limit.
-- returns: zero or more
-- roles: auditor
-- $1 id text
-- $2 tenants text[]
-- $3 sources_max integer
-- $4 limit integer
-- index: event_key_pkey
-- locks: none
with recursive scope as materialized (
  select distinct k.tenant from ledger.kind k where $2::text[] is null or k.tenant = any ($2::text[])
),
source as (
  select s.tenant, (
    select k.source from ledger.event_key k where k.tenant = s.tenant order by k.source limit 1) as source
  from scope s
  union all
  select s.tenant, (
    select k.source from ledger.event_key k where k.tenant = s.tenant and k.source > s.source order by k.source limit 1)
  from source s where s.source is not null
)
select k.event_no, k.occurred_at, k.tenant, k.source, k.id
from (select s.* from source s limit $3::integer) s
cross join lateral (
  select k.event_no, k.occurred_at, k.tenant, k.source, k.id from ledger.event_key k
  where k.tenant = s.tenant and k.source = s.source and k.id = $1::text offset 0
) k
limit $4::integer
