-- Subtract claimed items from the buckets of flows with a rate.
-- returns: zero
-- roles: allocator, pull_worker
-- $1 flow_nos integer[]
-- $2 taken integer[]
-- index: flow_pkey
-- locks: flow rows (held since lock_limited_flows)
update ledger.flow f
set tokens = ledger.tokens_now(f.rate_per_second, f.tokens, f.tokens_at) - u.taken, tokens_at = ledger.machine_now()
from unnest($1::integer[], $2::integer[]) u (flow_no, taken)
where f.flow_no = u.flow_no and f.rate_per_second is not null
