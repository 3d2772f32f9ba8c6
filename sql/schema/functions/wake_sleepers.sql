create function ledger.wake_sleepers() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  -- Each query here sees what is committed now, also where the statement began before a process registered its sleep.
  perform from ledger.process p where p.sleeps_until is not null;
  if found then
    perform pg_notify('ledger_process_' || s.process_no, '')
    from ledger.process s
    where s.sleeps_until >= ledger.now()
      and coalesce(current_setting('ledger.wakes', true), '') <> 'off'
      and exists (
        select from written w
        join ledger.flow f on f.flow_no = w.flow_no
        join ledger.kind k on k.kind_no = f.kind_no
        where w.available_at <= s.sleeps_until
          and case when s.kinds is null then k.dispatch <> 'direct' else k.name = any (s.kinds) end);
  end if;
  return null;
end $$;

comment on function ledger.wake_sleepers is
  'Notify each process that sleeps beyond the time from which a written item may be claimed. A transaction that is to be '
  'prepared (two-phase commit) may not notify: it sets ledger.wakes to off, and the next poll finds its items.';
revoke execute on function ledger.wake_sleepers from public;

create trigger pending_wakes_sleepers after insert on ledger.pending
  referencing new table as written
  for each statement execute function ledger.wake_sleepers();
create trigger pending_rewakes_sleepers after update on ledger.pending
  referencing new table as written
  for each statement execute function ledger.wake_sleepers();
