-- Mark claims as acknowledged by Kafka, once each; the offset is kept even where the claim has closed meanwhile.
-- returns: zero or more
-- $1 fences bigint[]
-- $2 base_offsets bigint[]
-- index: claim_pkey
-- locks: claim rows (for update, fence ascending)
with asked as materialized (
  select * from unnest($1::bigint[], $2::bigint[]) u (fence, base_offset) order by u.fence
)
update ledger.claim c
set published_at = ledger.now(), base_offset = u.base_offset
from asked u
where c.fence = u.fence and c.published_at is null
returning c.fence, (c.closed_at is not null and c.started < c.size) as closed
