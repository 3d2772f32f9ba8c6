-- A process writes in its own name. Only people with a role for decisions are named as a person; a service is named by
-- ledger.emit, after its login.
create function ledger.register_actor(name text, kind text) returns bigint
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  prefix text := lower(split_part(name, ':', 1));
  permitted text[] := case
    when 'person' in (kind, prefix) then array['ledger_operator', 'ledger_approver']
    when 'key' in (kind, prefix) then array[]::text[]  -- made with the key
    when 'oidc' in (kind, prefix) then array['ledger_service']
    when prefix = 'service' then array['ledger_emitter', 'ledger_relay']
  end;
  known bigint;
begin
  if permitted is not null and not exists (
    select from unnest(permitted || current_user::text) p (role) where pg_has_role(ledger.calling_role(), p.role, 'usage'))
  then
    raise exception using
      errcode = '42501',
      message = format('%s may not write as %L', ledger.calling_role(), name),
      hint = format('only %s may', coalesce('a member of ' || nullif(array_to_string(permitted, ' or '), ''), 'the owner'));
  end if;
  -- An insert takes a number even where it conflicts; most callers are known.
  update ledger.actor a set seen_at = statement_timestamp() where a.name = register_actor.name returning a.actor_no into known;
  if known is null then
    insert into ledger.actor as a (name, kind, tenants)
    values (register_actor.name, register_actor.kind, case when 'oidc' in (kind, prefix) then array[]::text[] end)
    on conflict on constraint actor_name_key do update set seen_at = statement_timestamp()
    returning a.actor_no into known;
  end if;
  return known;
end $$;

comment on function ledger.register_actor is
  'Find or make the number of an actor. Only an operator or approver may name a person, only an emitter or relay a service, only a service of REST a subject of tokens, only the owner an API key.';
revoke execute on function ledger.register_actor from public;
