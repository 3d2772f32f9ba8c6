-- Find claims of which the answer was lost, of the latest 10,000: those that claim_few_items recorded with one of these secrets.
-- returns: zero or more
-- roles: allocator
-- $1 secrets text[]
-- index: claim_pkey
-- locks: none
select c.fence, c.claimed_at, c.token
from (select k.fence, k.claimed_at, k.token from ledger.claim k order by k.fence desc, k.claimed_at desc limit 10000) c
cross join unnest($1::text[]) u (secret)
where c.token = left(encode(sha256(convert_to(u.secret || c.fence, 'UTF8')), 'hex'), 16)
