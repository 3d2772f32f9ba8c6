create function ledger.lift_sequence(name text) returns void
  language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '50ms'
as $$
declare
  per_second constant bigint := 8192;  -- for 34 years within the 2^43 numbers of a cell
  tries constant integer := 40;
  target bigint;
begin
  if name not in ('fence', 'run_run_no_seq') then
    raise exception using errcode = '22023', message = format('no numbers of %L are lifted', name);
  end if;
  for try in 1..tries loop
    begin
      perform from ledger.cell for update;  -- one at a time: two would each hold what the other waits for
      select s.seqmin + floor(extract(epoch from clock_timestamp() - '2026-01-01 00:00Z'::timestamptz) * per_second) into target
      from pg_sequence s where s.seqrelid = format('ledger.%I', name)::regclass;
      if target - coalesce(pg_sequence_last_value(format('ledger.%I', name)::regclass), 0) <= per_second then
        return;
      end if;
      -- Changes nothing, but takes the lock that excludes nextval: setval beside one could give a number twice.
      execute format('alter sequence ledger.%I set logged', name);
      perform setval(s.seqrelid, least(target, s.seqmax))
      from pg_sequence s
      where s.seqrelid = format('ledger.%I', name)::regclass
        and least(target, s.seqmax) > coalesce(pg_sequence_last_value(s.seqrelid), 0);
      return;
    exception when lock_not_available then
      -- A session that holds it so long has taken a number, and had the sequence lifted before: after any restore.
      if try = tries then
        return;
      end if;
      -- Others take numbers meanwhile: who waits for the lock holds them up.
      perform pg_sleep(0.05);
    end;
  end loop;
end $$;

comment on function ledger.lift_sequence is
  'Lift the fences or the run numbers to the clock, where they are more than a second''s worth behind it: what a restored '
  'copy or a promoted standby gave before is below. Called before the first number that a connection takes.';
revoke execute on function ledger.lift_sequence from public;
