create sequence ledger.sleep_until maxvalue 8589934591;

comment on sequence ledger.sleep_until is
  'No numbers: seconds of the epoch, of business time, until which a process may sleep. Other sessions read it '
  'without a query, and before the transaction that sets it is committed.';

-- Twice as late as given: of two times that are set at once, the earlier one may remain.
create function ledger.announce_sleep(until timestamptz) returns boolean
  language sql security definer set search_path = pg_catalog, pg_temp
  return setval('ledger.sleep_until', least(date_part('epoch', until + (until - ledger.now()))::bigint, 8589934591)) > 0;

comment on function ledger.announce_sleep is
  'Let emissions of items due before then ask who sleeps; true. Before the row of the process is committed.';
revoke execute on function ledger.announce_sleep from public;

create function ledger.wake_sleepers(flow_nos integer[], available_ats timestamptz[]) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  -- Each query here sees what is committed now, also where the statement began before a process registered its sleep.
  perform from ledger.process p where p.sleeps_until is not null;
  if found then
    perform pg_notify('ledger_process_' || s.process_no,
      case when cardinality(flow_nos) = 1 and available_ats[1] <= ledger.now()
        then flow_nos[1] || ' ' || floor(date_part('epoch', available_ats[1]))::bigint else '' end)
    from ledger.process s
    where s.sleeps_until >= ledger.now()
      and coalesce(current_setting('ledger.wakes', true), '') <> 'off'
      and exists (
        select from unnest(flow_nos, available_ats) w (flow_no, available_at)
        join ledger.flow f on f.flow_no = w.flow_no
        join ledger.kind k on k.kind_no = f.kind_no
        where w.available_at <= s.sleeps_until
          and case when s.kinds is null then k.dispatch <> 'direct' else f.kind = any (s.kinds) end);
  end if;
  return true;
end $$;

comment on function ledger.wake_sleepers is
  'Notify each process that sleeps beyond the time from which a written item may be claimed; true. One flow with an item '
  'that is due is named with its second of the epoch, so that the process need not list the flows. Statements that insert '
  'into pending call it: as a trigger it made an emission dearer. A transaction that is to be prepared (two-phase commit) '
  'may not notify: it sets ledger.wakes to off, and the next poll finds its items.';
revoke execute on function ledger.wake_sleepers from public;

create function ledger.wake_for_updates() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform ledger.wake_sleepers(array_agg(w.flow_no), array_agg(w.available_at)) from written w;
  return null;
end $$;

comment on function ledger.wake_for_updates is 'Notify as ledger.wake_sleepers, for rows of pending that change.';
revoke execute on function ledger.wake_for_updates from public;

create trigger pending_wakes_sleepers after update on ledger.pending
  referencing new table as written
  for each statement execute function ledger.wake_for_updates();
