-- A text without arguments has the collation of the index on actor.name, which session_user has not.
-- Each login can set `ledger.key_name` and `ledger.token_tenants`; they count only for the login of a service, which has
-- checked the key or token.
create function ledger.emitter_name() returns text
  language sql stable parallel safe
  return case
    when coalesce(current_setting('ledger.key_name', true), '') <> ''  -- after a null the other two would be evaluated
      and current_setting('ledger.key_name', true) similar to '(key|oidc):%' and pg_has_role(session_user, 'ledger_service', 'member')
    then current_setting('ledger.key_name', true)
    else 'service:' || session_user end;

comment on function ledger.emitter_name is
  'The name under which a login emits: its own, or that of the API key or of the subject of a token for which '
  'a service acts in this transaction.';

create function ledger.token_has_tenant(tenant text) returns boolean
  language sql stable parallel safe
  return ledger.emitter_name() like 'oidc:%'
    and coalesce(
      array[tenant, '*'] && nullif(current_setting('ledger.token_tenants', true), '')::text[], false);

comment on function ledger.token_has_tenant is
  'Whether a service acts in this transaction for a token that names the tenant, or ''*'' for each.';

create function ledger.emitting_actor(tenant text) returns bigint
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  known bigint;
  permitted boolean;
begin
  select a.actor_no, a.tenants is null or coalesce(emitting_actor.tenant = any (a.tenants), false)
    or ledger.token_has_tenant(emitting_actor.tenant)
  into known, permitted
  from ledger.actor a where a.name = ledger.emitter_name();
  if not permitted then
    raise exception using
      errcode = '42501', column = 'tenant',
      message = format('%s may not emit for tenant %L', session_user, emitting_actor.tenant),
      hint = 'it emits for the tenants named by `dueledger grant … TO … --tenant …` only';
  end if;
  return coalesce(known, ledger.register_actor(ledger.emitter_name(), 'service'));
end $$;

comment on function ledger.emitting_actor is
  'The number of the login that emits. Refuses a tenant that is not one of those to which the login is bound.';
revoke execute on function ledger.emitting_actor from public;
