create function ledger.register_actor(name text, kind text) returns integer
  language sql security definer set search_path = pg_catalog, pg_temp
as $$
  insert into ledger.actor as a (name, kind) values (register_actor.name, register_actor.kind)
  on conflict (name) do update set seen_at = statement_timestamp()
  returning a.actor_no;
$$;

comment on function ledger.register_actor is 'Find or make the number of an actor.';
