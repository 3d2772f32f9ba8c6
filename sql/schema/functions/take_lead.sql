create function ledger.take_lead(task text, holder text, seconds double precision) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into ledger.leader as l (task, holder, held_until)
  values (take_lead.task, take_lead.holder, ledger.machine_now() + make_interval(secs => least(take_lead.seconds, 300)))
  on conflict on constraint leader_pkey do update
  set holder = excluded.holder, held_until = excluded.held_until
  where l.held_until <= ledger.machine_now() or l.holder = excluded.holder;
  return found;
end $$;

comment on function ledger.take_lead is
  'Take or keep a task for so many seconds, 300 at most; false while another process has it.';
revoke execute on function ledger.take_lead from public;
