-- List the closed ones of these claims by their place in the input, with how far each was started.
-- returns: zero or more
-- roles: worker
-- $1 fences bigint[]
-- $2 claimed_ats timestamptz[]
-- $3 tokens text[]
-- $4 first_claimed_at timestamptz
-- $5 last_claimed_at timestamptz
-- index: claim_pkey
-- locks: none
select u.ord::integer as ord, c.started
from unnest($1::bigint[], $2::timestamptz[], $3::text[]) with ordinality u (fence, claimed_at, token, ord)
join ledger.claim c
  on c.fence = u.fence and c.claimed_at is not distinct from u.claimed_at and c.claimed_at between $4::timestamptz and $5::timestamptz
where c.token = u.token and c.closed_at is not null
