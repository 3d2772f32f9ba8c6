-- Digest the recorded domain events of these types, in pages of 65,536 numbers: counts, and sums of hashes of what event rules read.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 types text[]
-- index: none
-- locks: none
select event_no >> 16 as page, concat_ws(
    '/', count(*), sum(
      jsonb_hash_extended(
        body, timestamptz_hash_extended(received_at, hashtextextended(tenant, hashtextextended(type, event_no)))))) as digest
from ledger.event
where type = any($1::text[])
group by event_no >> 16
order by event_no >> 16
