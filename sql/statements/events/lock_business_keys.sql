-- Lock buckets of business keys until the transaction ends, so that one transaction at a time applies a key's events.
-- returns: one
-- $1 buckets integer[]
-- index: none
-- locks: advisory, one a bucket, in the order given
select count(pg_advisory_xact_lock(hashtext('ledger.business_key'), u.bucket))::integer as locked
from unnest($1::integer[]) u (bucket)
