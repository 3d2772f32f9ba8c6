-- A commit is visible a moment before it invalidates what other sessions have cached of a table: a session that reads
-- the row of partition_span in that moment would insert and find no partition. The maker releases its lock after that,
-- so holding the lock shared for an instant waits for it; taking and releasing a table lock then reads the
-- invalidations.
create function ledger.await_partitions() returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (
    select from ledger.partition_span p where p.made_at > clock_timestamp() - interval '10 seconds'
  ) then
    return false;
  end if;
  for attempt in 1..200 loop  -- at most a second: a maker that stays open has shown us nothing yet
    if pg_try_advisory_lock_shared(hashtextextended('ledger.partition', 0)) then
      perform pg_advisory_unlock_shared(hashtextextended('ledger.partition', 0));
      exit;
    end if;
    perform pg_sleep(0.005);
  end loop;
  begin
    lock table ledger.partition_span in row share mode;
    raise exception using errcode = 'DL004';
  exception when sqlstate 'DL004' then
    return true;
  end;
end $$;

comment on function ledger.await_partitions is
  'Wait until this session can insert into table partitions that others have just made; false where there are none.';
