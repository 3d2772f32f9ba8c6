create function ledger.take_lead(task text, holder text, seconds double precision) returns bigint
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  held_term bigint;
begin
  insert into ledger.leader as l (task, holder, held_until)
  values (take_lead.task, take_lead.holder, ledger.machine_now() + make_interval(secs => least(take_lead.seconds, 300)))
  on conflict on constraint leader_pkey do update
  set holder = excluded.holder, held_until = excluded.held_until,
    term = l.term + (l.holder <> excluded.holder)::integer
  where l.held_until <= ledger.machine_now() or l.holder = excluded.holder
  returning l.term into held_term;
  return held_term;
end $$;

comment on function ledger.take_lead is
  'Take or keep a task for so many seconds, 300 at most; returns the term of the lead, null while another process has it.';
revoke execute on function ledger.take_lead from public;
