create function ledger.register_actor(name text, kind text) returns bigint
  language sql security definer set search_path = pg_catalog, pg_temp
as $$
  -- An insert takes a number even where it conflicts; most callers are known.
  with known as (
    update ledger.actor a set seen_at = statement_timestamp() where a.name = register_actor.name returning a.actor_no
  ),
  made as (
    insert into ledger.actor as a (name, kind)
    select register_actor.name, register_actor.kind where not exists (select from known)
    on conflict (name) do update set seen_at = statement_timestamp()
    returning a.actor_no
  )
  select k.actor_no from known k union all select m.actor_no from made m;
$$;

comment on function ledger.register_actor is 'Find or make the number of an actor.';
