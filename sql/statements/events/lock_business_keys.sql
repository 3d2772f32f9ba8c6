-- Lock buckets of business keys until the transaction ends, so that one transaction at a time applies a key's events.
-- returns: one
-- roles: intake
-- $1 buckets integer[]
-- index: none
-- locks: lock_row, one a bucket, in the order of the keys
select ledger.lock_rows('business_key', $1::integer[]::text[]) as locked
