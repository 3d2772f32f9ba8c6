create function ledger.emitting_actor(tenant text) returns bigint
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (select from ledger.emitter_tenant e where e.login = session_user)
    and not exists (
      select from ledger.emitter_tenant e where e.login = session_user and e.tenant = emitting_actor.tenant)
  then
    raise exception using
      errcode = '42501', column = 'tenant',
      message = format('%s may not emit for tenant %L', session_user, emitting_actor.tenant),
      hint = 'it emits for the tenants named by `dueledger grant emitter TO … --tenant …` only';
  end if;
  return coalesce(
    (select a.actor_no from ledger.actor a where a.name = 'service:' || session_user),
    ledger.register_actor('service:' || session_user, 'service'));
end $$;

comment on function ledger.emitting_actor is
  'The number of the login that emits. Refuses a tenant that is not one of those to which the login is bound.';
revoke execute on function ledger.emitting_actor from public;
