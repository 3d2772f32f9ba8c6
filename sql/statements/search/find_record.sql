-- Find the item of a Kafka record among the latest claims, up to a limit; the latest claim if an offset was given twice.
-- returns: zero or one
-- roles: auditor
-- $1 topic text
-- $2 partition integer
-- $3 record_offset bigint
-- $4 tenants text[]
-- $5 claims_max integer
-- index: claim_pkey, due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
claimed as materialized (
  select c.fence, c.claimed_at, c.item_no[$3::bigint - c.base_offset + 1] as item_no,
    c.effective_date[$3::bigint - c.base_offset + 1] as effective_date
  from (
    select c.fence, c.claimed_at, c.topic, c.partition, c.base_offset, c.size, c.item_no, c.effective_date
    from ledger.claim c order by c.fence desc, c.claimed_at desc limit $5::integer
  ) c
  where c.topic = $1::text and c.partition = $2::integer and $3::bigint between c.base_offset and c.base_offset + c.size - 1
  order by c.fence desc limit 1
)
select i.id, k.tenant, k.name as kind, i.business_key, c.fence
from claimed c
cross join lateral (
  select i.id, i.flow_no, i.business_key from ledger.due_item i
  where i.effective_date = c.effective_date and i.item_no = c.item_no offset 0
) i
join ledger.flow f on f.flow_no = i.flow_no
join ledger.kind k on k.kind_no = f.kind_no
where $4::text[] is null or k.tenant = any ($4::text[])
