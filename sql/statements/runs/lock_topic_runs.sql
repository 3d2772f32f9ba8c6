-- Lock the open runs of claims that are settled by topic, until the transaction ends.
-- returns: zero or more
-- $1 fences bigint[]
-- index: claim_pkey, run_fence_idx
-- locks: run rows (for update, run_no ascending)
with asked as materialized (
  select u.fence from unnest($1::bigint[]) u (fence) order by u.fence
)
select r.run_no
from asked a
join ledger.claim c on c.fence = a.fence and c.topic_actor_no is not null
join ledger.run r on r.fence = c.fence and r.worker_no = c.topic_actor_no and r.closed_at is null
order by r.run_no
for update of r
