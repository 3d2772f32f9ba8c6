create function ledger.grant_role(role text, login text, tenants text[] default null) returns void
  language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  execute format('grant %I to %I', 'ledger_' || role, login);
  if tenants is not null then
    insert into ledger.actor (name, kind, tenants) values ('service:' || login, 'service', grant_role.tenants)
    on conflict on constraint actor_name_key do update set tenants = excluded.tenants;
  end if;
end $$;

comment on function ledger.grant_role is
  'Grant a role to a login, with the caller''s rights; an emitter or relay may then emit for `tenants` only, where they are given.';

create function ledger.revoke_role(role text, login text) returns void
  language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  execute format('revoke %I from %I', 'ledger_' || role, login);
  if role in ('emitter', 'relay') then
    update ledger.actor a set tenants = null where a.name = 'service:' || login;
  end if;
end $$;

comment on function ledger.revoke_role is 'Revoke a role from a login, with the caller''s rights.';
