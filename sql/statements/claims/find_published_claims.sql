-- Find the claims of these fences that were made for Kafka, acknowledged or not.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 fences bigint[]
-- $2 first_claimed_at timestamptz
-- $3 last_claimed_at timestamptz
-- index: claim_pkey
-- locks: none
select c.fence, c.claimed_at, c.topic, c.partition, c.size, c.base_offset, c.published_at
from ledger.claim c
where c.fence = any ($1::bigint[]) and c.claimed_at between $2::timestamptz and $3::timestamptz and c.partition >= 0
