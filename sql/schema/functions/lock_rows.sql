create function ledger.lock_rows(subject text, keys text[]) returns integer
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  locked integer;
begin
  with locked_row as (
    select from ledger.lock_row l where l.subject = lock_rows.subject and l.key = any (keys) order by l.key for update
  )
  select count(*) into locked from locked_row;
  return locked;
end $$;

comment on function ledger.lock_rows is
  'Lock rows of lock_row until the transaction ends, one after another in the order of their keys; returns how many.';
revoke execute on function ledger.lock_rows from public;

create function ledger.try_lock_rows(subject text, keys text[]) returns setof text
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  return query
  select l.key from ledger.lock_row l where l.subject = try_lock_rows.subject and l.key = any (keys) for update skip locked;
end $$;

comment on function ledger.try_lock_rows is
  'Lock those rows of lock_row that nobody else has locked, until the transaction ends; returns their keys.';
revoke execute on function ledger.try_lock_rows from public;

create function ledger.lock_name(subject text, name text) returns void
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into ledger.lock_row (subject, key) values (lock_name.subject, lock_name.name) on conflict do nothing;
  perform ledger.lock_rows(lock_name.subject, array[lock_name.name]);
end $$;

comment on function ledger.lock_name is 'Lock a name until the transaction ends, whether or not there is a row of what it names.';
revoke execute on function ledger.lock_name from public;
