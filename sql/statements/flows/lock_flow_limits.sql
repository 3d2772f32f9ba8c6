-- Lock a flow and read its limits, which no other transaction changes until this one ends.
-- returns: zero or one
-- roles: operator
-- $1 tenant text
-- $2 kind text
-- $3 lane text
-- index: none
-- locks: flow row (for update)
select f.weight, f.rate_per_second, f.concurrency_max, f.window_items, f.retry_share, f.circuit_failure_ratio,
  f.circuit_calls_min, f.circuit_window_seconds, f.circuit_rest_seconds, f.lag_target_seconds
from ledger.flow f join ledger.kind k on k.kind_no = f.kind_no
where k.tenant = $1::text and k.name = $2::text and f.lane = $3::text
for update of f
