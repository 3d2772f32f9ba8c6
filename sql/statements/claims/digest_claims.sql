-- Compute of each claim how many of its items exist, the digest of their ids in the order published, and whether the token that its records have is its own.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 fences bigint[]
-- $2 claimed_ats timestamptz[]
-- $3 first_claimed_at timestamptz
-- $4 last_claimed_at timestamptz
-- $5 tokens text[]
-- index: claim_pkey, due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select a.fence, a.claimed_at, ledger.has_token(a.fence, a.claimed_at, a.token) as has_token
  from unnest($1::bigint[], $2::timestamptz[], $5::text[]) a (fence, claimed_at, token)
)
select c.fence, count(i.id) as item_count, sha256(string_agg(uuid_send(i.id), ''::bytea order by u.position)) as digest,
  bool_and(a.has_token) as has_token
from asked a
join ledger.claim c on c.fence = a.fence and c.claimed_at is not distinct from a.claimed_at
  and c.claimed_at between $3::timestamptz and $4::timestamptz
cross join lateral unnest(c.item_no, c.effective_date) with ordinality u (item_no, effective_date, position)
left join ledger.due_item i on i.effective_date = u.effective_date and i.item_no = u.item_no
group by c.fence
