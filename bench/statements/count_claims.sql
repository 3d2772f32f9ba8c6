-- Count the claims that were made in a span of time.
-- returns: one
-- roles: owner
-- $1 since timestamptz
-- $2 until timestamptz
-- index: none
-- locks: none
select count(*) as claims from ledger.claim c where c.claimed_at >= $1::timestamptz and c.claimed_at < $2::timestamptz
