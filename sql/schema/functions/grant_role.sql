create function ledger.grant_role(role text, login text, tenants text[] default null) returns void
  language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  execute format('grant %I to %I', 'ledger_' || role, login);
  if tenants is not null then
    delete from ledger.emitter_tenant e where e.login = grant_role.login and e.tenant <> all (tenants);
    insert into ledger.emitter_tenant (login, tenant)
    select grant_role.login, t.tenant from unnest(tenants) t (tenant)
    on conflict do nothing;
  end if;
end $$;

comment on function ledger.grant_role is
  'Grant a role to a login, with the caller''s rights; an emitter may then emit for `tenants` only, where they are given.';

create function ledger.revoke_role(role text, login text) returns void
  language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  execute format('revoke %I from %I', 'ledger_' || role, login);
  if role = 'emitter' then
    delete from ledger.emitter_tenant e where e.login = revoke_role.login;
  end if;
end $$;

comment on function ledger.revoke_role is 'Revoke a role from a login, with the caller''s rights.';
