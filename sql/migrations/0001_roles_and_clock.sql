-- Roles, and the one clock everything decides by.
-- Roles belong to the whole cluster, so a second database finds them made.

do $$
declare
  wanted text;
begin
  foreach wanted in array array['ledger_emitter', 'ledger_worker', 'ledger_auditor', 'ledger_simulator'] loop
    begin
      execute format('create role %I nologin', wanted);
    exception when duplicate_object or unique_violation then
      null;
    end;
  end loop;
end $$;

create schema ledger;
grant usage on schema ledger to ledger_emitter, ledger_worker, ledger_auditor, ledger_simulator;

-- Simulated time: 'origin|anchor|rate'. The simulated instant is origin + (real − anchor) · rate.
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

-- Business time: what is due, available, effective. STABLE, so that it can stand in an index condition.
create function ledger.now() returns timestamptz
  language sql stable parallel safe
  return case
    when coalesce(current_setting('ledger.clock', true), '') = '' then statement_timestamp()
    else ledger.simulated_time(current_setting('ledger.clock', true))
  end;

-- Machine time: leases, deadlines, heartbeats.
create function ledger.machine_now() returns timestamptz
  language sql stable parallel safe
  return case
    when coalesce(current_setting('ledger.machine_clock', true), '') = '' then statement_timestamp()
    else ledger.simulated_time(current_setting('ledger.machine_clock', true))
  end;

-- How many business seconds pass in a real one; nearly none where business time stands still.
create function ledger.clock_rate() returns double precision
  language sql stable parallel safe
  return greatest(
    coalesce(nullif(split_part(coalesce(current_setting('ledger.clock', true), ''), '|', 3), ''), '1')::double precision,
    1e-9);
