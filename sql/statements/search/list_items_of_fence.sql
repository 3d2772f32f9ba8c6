-- List the caller's items of the claims with a fence, by position, up to a limit.
-- returns: zero or more
-- roles: auditor
-- $1 fence bigint
-- $2 tenants text[]
-- $3 limit integer
-- index: claim_pkey, due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default)
select i.id, k.tenant, k.name as kind, f.lane, i.business_key, i.effective_date, i.due_at, u.position::integer as position,
  u.attempt, c.claimed_at
from (
  select c.fence, c.claimed_at, c.item_no, c.effective_date, c.attempt from ledger.claim c
  where c.fence = $1::bigint order by c.claimed_at desc limit 10
) c
cross join lateral unnest(c.item_no, c.effective_date, c.attempt) with ordinality u (item_no, effective_date, attempt, position)
cross join lateral (
  select i.id, i.flow_no, i.business_key, i.effective_date, i.due_at from ledger.due_item i
  where i.effective_date = u.effective_date and i.item_no = u.item_no offset 0
) i
cross join lateral (select f.kind_no, f.lane from ledger.flow f where f.flow_no = i.flow_no offset 0) f
cross join lateral (select k.tenant, k.name from ledger.kind k where k.kind_no = f.kind_no offset 0) k
where $2::text[] is null or k.tenant = any ($2::text[])
limit $3::integer
