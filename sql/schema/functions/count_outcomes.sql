create function ledger.count_outcomes(flow_nos integer[], run_nos bigint[], completed bigint[], failed bigint[]) returns boolean
  language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  if flow_nos is not null then
    insert into ledger.flow_outcome (flow_no, at, run_no, completed, failed)
    select f.flow_no, ledger.machine_now(), min(o.run_no), sum(o.completed), sum(o.failed)
    from unnest(flow_nos, run_nos, count_outcomes.completed, count_outcomes.failed) o (flow_no, run_no, completed, failed)
    join ledger.flow f on f.flow_no = o.flow_no and f.circuit_failure_ratio is not null
    group by f.flow_no;
  end if;
  return true;
end $$;

comment on function ledger.count_outcomes is
  'Record how many items of runs of limited flows completed and failed, for those with a circuit; true.';
