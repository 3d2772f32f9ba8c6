-- The session's own user is asked, so that no function that runs as its owner lends the right.
create function ledger.simulated_time(setting text) returns timestamptz
  language plpgsql stable strict parallel safe
as $$
begin
  if not pg_has_role(session_user, 'ledger_simulator', 'usage') then
    raise exception using
      errcode = 'DL001',
      message = 'a simulated clock is set, and ' || session_user || ' may not use one',
      hint = 'unset ledger.clock and ledger.machine_clock, or grant ledger_simulator (never in production)';
  end if;
  return split_part(setting, '|', 1)::timestamptz
    + (statement_timestamp() - split_part(setting, '|', 2)::timestamptz)
      * split_part(setting, '|', 3)::double precision;
end $$;

comment on function ledger.simulated_time is
  'The instant of a simulated clock: ''origin|anchor|rate'' means origin + (real time - anchor) * rate. Only for '
  'members of ledger_simulator.';

-- STABLE, so that an index condition can use it; VOLATILE would make the condition a filter over the whole table.
create function ledger.now() returns timestamptz
  language sql stable parallel safe
  return case
    when coalesce(current_setting('ledger.clock', true), '') = '' then statement_timestamp()
    else ledger.simulated_time(current_setting('ledger.clock', true))
  end;

comment on function ledger.now is 'The business clock: what is due, available and effective.';

create function ledger.machine_now() returns timestamptz
  language sql stable parallel safe
  return case
    when coalesce(current_setting('ledger.machine_clock', true), '') = '' then statement_timestamp()
    else ledger.simulated_time(current_setting('ledger.machine_clock', true))
  end;

comment on function ledger.machine_now is 'The machine clock: leases, deadlines and heartbeats.';

create function ledger.clock_rate() returns double precision
  language sql stable parallel safe
  return greatest(
    coalesce(nullif(split_part(coalesce(current_setting('ledger.clock', true), ''), '|', 3), ''), '1')::double precision,
    1e-9);

comment on function ledger.clock_rate is
  'How many business seconds pass in a real one; nearly none while business time stands still.';
