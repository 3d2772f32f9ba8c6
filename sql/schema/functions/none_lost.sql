-- Postgres plans a statement and locks its tables before it takes the snapshot. The plan has no partition that was
-- attached in between, and a join drops its rows. After lock_partitions() only rows without an item are left;
-- ledger.orphans = dropped lets a statement drop these.
create function ledger.none_lost(taken bigint, seen bigint) returns boolean
  language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
  if taken = seen or current_setting('ledger.orphans', true) = 'dropped' then
    return true;
  end if;
  raise exception using
    errcode = 'DL005',
    message = format('%s items were taken and %s of them found in due_item', taken, seen),
    detail = 'A partition of due_item is newer than the plan of this statement. Nothing was changed.',
    hint = 'repeat it in a new transaction';
end $$;

comment on function ledger.none_lost is
  'Raise DL005 where a statement took items and did not find all of them in due_item.';
