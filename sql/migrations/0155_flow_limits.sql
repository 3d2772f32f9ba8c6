-- Limits of flows that no computation can break on: a rate of 5e-324 or a window of 1e15 seconds made the statements
-- fail in which all flows are measured and judged. The bounds stand in ledger/flow_bounds.py too.
-- Flows are few, and each is a narrow row: nobody waits long for these locks.
-- The bounds that replace the older ones are narrower, so nothing that clients may assume goes.
-- squawk-ignore-file constraint-missing-not-valid, ban-drop-constraint

-- What was stored outside of them becomes the nearest that is inside; a limit that is not set stays so, though greatest
-- and least pass nulls by. NaN sorts above every number.
update ledger.flow
set weight = least(weight, 1000000),
  rate_per_second = case when rate_per_second is not null then least(greatest(rate_per_second, 3e-8), 1e9) end,
  concurrency_max = case when concurrency_max is not null then least(concurrency_max, 1000000000) end,
  window_items = case when window_items is not null then least(window_items, 1000000000) end,
  tokens = case when tokens between -1e12 and 1e12 then tokens end,
  circuit_failure_ratio = case when circuit_failure_ratio is not null then greatest(circuit_failure_ratio, 1e-6) end,
  circuit_calls_min = least(circuit_calls_min, 1000000),
  circuit_window_seconds = least(greatest(circuit_window_seconds, 0.001), 604800),
  circuit_rest_seconds = least(greatest(circuit_rest_seconds, 0.001), 604800);

alter table ledger.flow
  drop constraint flow_weight_positive,
  drop constraint flow_limits_positive,
  drop constraint flow_circuit_range,
  add constraint flow_weight_range check (weight between 1 and 1000000),
  add constraint flow_rate_per_second_range check (rate_per_second between 3e-8 and 1e9),
  add constraint flow_concurrency_max_range check (concurrency_max between 1 and 1000000000),
  add constraint flow_window_items_range check (window_items between 1 and 1000000000),
  add constraint flow_circuit_failure_ratio_range check (circuit_failure_ratio between 1e-6 and 1),
  add constraint flow_circuit_calls_min_range check (circuit_calls_min between 1 and 1000000),
  add constraint flow_circuit_window_seconds_range check (circuit_window_seconds between 0.001 and 604800),
  add constraint flow_circuit_rest_seconds_range check (circuit_rest_seconds between 0.001 and 604800),
  add constraint flow_tokens_range check (tokens between -1e12 and 1e12);
