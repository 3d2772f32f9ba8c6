-- Lock the open runs of claims that are settled by topic or by pull workers, until the transaction ends.
-- returns: zero or more
-- roles: outcome_intake, pull_worker
-- $1 fences bigint[]
-- $2 claimed_ats timestamptz[]
-- $3 tokens text[]
-- $4 first_claimed_at timestamptz
-- $5 last_claimed_at timestamptz
-- index: claim_pkey, run_fence_idx
-- locks: run rows (for update, run_no ascending)
with asked as materialized (
  select distinct u.fence, u.claimed_at, u.token
  from unnest($1::bigint[], $2::timestamptz[], $3::text[]) u (fence, claimed_at, token) order by u.fence
)
select r.run_no
from asked a
join ledger.claim c on c.fence = a.fence and c.claimed_at is not distinct from a.claimed_at
  and c.claimed_at between $4::timestamptz and $5::timestamptz and c.token = a.token
-- The statement that starts the run of such a claim closes the claim, so both have the same time.
join ledger.run r on r.fence = c.fence and r.started_at = c.closed_at and r.closed_at is null
  and r.worker_no = case when c.partition < 0 then c.allocator_no else c.topic_actor_no end
order by r.run_no
for update of r
