-- List claims that Kafka acknowledged, and others for Kafka that workers started and that were over at an instant; made since another, by ascending fence, by page.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 after_fence bigint
-- $2 claimed_since timestamptz
-- $3 closed_until timestamptz
-- $4 page_size integer
-- index: claim_pkey
-- locks: none
select c.fence, c.claimed_at, c.topic, c.partition, c.size, c.base_offset, c.published_at
from ledger.claim c
where c.fence > $1::bigint and c.claimed_at >= $2::timestamptz
  and (c.base_offset is not null or c.partition >= 0 and c.started > 0 and c.closed_at <= $3::timestamptz)
order by c.fence
limit $4::integer
