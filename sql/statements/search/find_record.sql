-- Find the item of a Kafka record: a binary search by fences for the claims around its offset, then among these and the latest, up to a limit at each step; the latest of these tenants if an offset was given twice.
-- returns: zero or one
-- roles: auditor
-- $1 topic text
-- $2 partition integer
-- $3 record_offset bigint
-- $4 tenants text[]
-- $5 claims_max integer
-- index: claim_pkey, due_item_pkey
-- locks: none
with recursive locked_default as (select from ledger.due_item_default),
search as (
  select 0 as step, null::bigint as below, (select c.fence from ledger.claim c order by c.fence limit 1) as first,
    (select c.fence from ledger.claim c order by c.fence desc limit 1) as last
  union all
  select s.step + 1, case when f.base_offset <= $3::bigint then f.fence else s.below end,
    case when f.base_offset > $3::bigint then s.first else m.middle + 1 end,
    case when f.base_offset > $3::bigint then f.fence - 1 else s.last end
  from search s
  cross join lateral (select s.first + (s.last - s.first) / 2 as middle offset 0) m
  left join lateral (
    select c.fence, c.base_offset
    from (
      select c.fence, c.topic, c.partition, c.base_offset from ledger.claim c
      where c.fence between s.first and m.middle order by c.fence desc limit $5::integer
    ) c
    where c.topic = $1::text and c.partition = $2::integer and c.base_offset is not null
    order by c.fence desc limit 1
  ) f on true
  where s.first <= s.last and s.step < 64
),
reached as materialized (select s.below from search s order by s.step desc limit 1),
-- Claims are published side by side: the order of fences is that of offsets, but for neighbours.
claimed as materialized (
  select n.fence, n.claimed_at, n.item_no[$3::bigint - n.base_offset + 1] as item_no,
    n.effective_date[$3::bigint - n.base_offset + 1] as effective_date
  from (
    (select c.fence, c.claimed_at, c.topic, c.partition, c.base_offset, c.size, c.item_no, c.effective_date
     from ledger.claim c where c.fence <= (select r.below from reached r) order by c.fence desc limit $5::integer)
    union all
    (select c.fence, c.claimed_at, c.topic, c.partition, c.base_offset, c.size, c.item_no, c.effective_date
     from ledger.claim c where c.fence > (select r.below from reached r) order by c.fence limit $5::integer)
    union all
    (select c.fence, c.claimed_at, c.topic, c.partition, c.base_offset, c.size, c.item_no, c.effective_date
     from ledger.claim c order by c.fence desc limit $5::integer)
  ) n
  where n.topic = $1::text and n.partition = $2::integer and $3::bigint between n.base_offset and n.base_offset + n.size - 1
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
order by c.fence desc limit 1
