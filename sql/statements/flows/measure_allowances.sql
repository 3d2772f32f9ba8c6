-- Measure how many items each limited flow may be given now, by rate, concurrency, window and circuit, or one at a time if its topic is silent; and when a flow without tokens has one.
-- returns: zero or more
-- roles: allocator, pull_worker
-- $1 flow_nos integer[]
-- $2 topic_window_items integer
-- index: claim_flow_idx, run_flow_idx, flow_outcome_idx
-- locks: none (its flows are locked by lock_limited_flows, in a statement before: these counts must be newer)
select f.flow_no,
  greatest(0, least(
    floor(bucket.tokens),
    f.concurrency_max - handed.items - running.items,
    case when k.settled_by = 'topic'
      then case when silent.is_so then 1 else coalesce(f.window_items, $2::integer) end - handed.items - running.items
      else f.window_items - handed.items end,
    case f.circuit
      when 'open' then 0
      when 'half_open' then case
        when exists (
          select from ledger.flow_outcome o
          where o.flow_no = f.flow_no and o.at > f.circuit_at and o.run_no > coalesce(f.circuit_run_no, 0)) then 0
        else 1 - handed.items - running.items end
    end,
    2147483647))::integer as allowance,
  case when bucket.tokens < 1 then (1 - bucket.tokens) / f.rate_per_second end as again_seconds
from ledger.flow f
join ledger.kind k on k.kind_no = f.kind_no
cross join lateral (
  select case when f.rate_per_second is not null
    then ledger.tokens_now(f.rate_per_second, f.tokens, f.tokens_at) end as tokens
) bucket
cross join lateral (
  select coalesce(sum(c.size - c.started), 0) as items
  from ledger.claim c where c.flow_no = f.flow_no and c.closed_at is null
) handed
cross join lateral (
  select coalesce(sum(bit_length(r.ended) - bit_count(r.ended)), 0) as items
  from ledger.run r where r.flow_no = f.flow_no and r.closed_at is null
) running
cross join lateral (
  select exists (select from ledger.silent_topic s where s.topic = k.topic) as is_so
) silent
where f.flow_no = any ($1::integer[]) and f.paused_at is null
