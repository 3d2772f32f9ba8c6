-- Roles belong to the cluster: another database may have made them, or makes them now.
create function ledger.make_role(name text) returns void
  language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  if to_regrole(name) is null then
    execute format('create role %I nologin', name);
  end if;
exception
  when duplicate_object or unique_violation then
    null;
  when insufficient_privilege then
    raise exception using
      errcode = '42501',
      message = format('%s lacks createrole, and there is no role %s yet', current_user, name),
      hint = format('let an administrator run: alter role %I createrole', current_user);
end $$;

comment on function ledger.make_role is 'Make a role without login, with the caller''s rights, unless there is one.';
