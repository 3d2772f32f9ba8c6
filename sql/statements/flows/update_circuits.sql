-- Open circuits whose flow failed too often, let a probe through after their rest, and close those whose probe completed.
-- returns: zero or more, one a circuit that changed
-- roles: upkeep
-- index: flow_outcome_idx
-- locks: flow rows (for update, flow_no ascending, skip locked)
with judged as materialized (
  select f.flow_no, f.circuit, f.circuit_at, f.circuit_failure_ratio, f.circuit_calls_min, f.circuit_rest_seconds,
    f.circuit_window_seconds, f.circuit_run_no
  from ledger.flow f
  where f.circuit_failure_ratio is not null or f.circuit <> 'closed'
  order by f.flow_no
  for update skip locked
),
measured as materialized (
  select j.*, o.completed, o.failed
  from judged j
  cross join lateral (
    select coalesce(sum(o.completed), 0) as completed, coalesce(sum(o.failed), 0) as failed
    from ledger.flow_outcome o
    where o.flow_no = j.flow_no
      and o.at > greatest(
        ledger.machine_now() - make_interval(secs => j.circuit_window_seconds), coalesce(j.circuit_at, '-infinity'))
      -- Runs that began before the circuit changed do not count.
      and o.run_no > coalesce(j.circuit_run_no, 0)
  ) o
),
decided as materialized (
  select m.flow_no, m.circuit, m.completed, m.failed,
    case
      when m.circuit_failure_ratio is null then 'closed'
      when m.circuit = 'closed' and m.completed + m.failed >= m.circuit_calls_min
        and m.failed >= m.circuit_failure_ratio * (m.completed + m.failed) then 'open'
      when m.circuit = 'open'
        and ledger.machine_now() >= m.circuit_at + make_interval(secs => m.circuit_rest_seconds) then 'half_open'
      when m.circuit = 'half_open' and m.failed > 0 then 'open'
      when m.circuit = 'half_open' and m.completed > 0 then 'closed'
      else m.circuit
    end as after
  from measured m
),
forgotten as (
  delete from ledger.flow_outcome o using judged j
  where o.flow_no = j.flow_no and o.at < ledger.machine_now() - make_interval(secs => j.circuit_window_seconds)
)
update ledger.flow f
set circuit = d.after, circuit_at = ledger.machine_now(),
  circuit_run_no = pg_sequence_last_value('ledger.run_run_no_seq')
from decided d
where f.flow_no = d.flow_no and d.after <> d.circuit
returning f.flow_no, d.circuit as before, d.after, d.completed::bigint as completed, d.failed::bigint as failed
