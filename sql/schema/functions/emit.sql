create function ledger.emit(
  tenant text, kind text, business_key text, effective_date date, due_at timestamptz,
  payload json default '{}', cycle text default '', lane text default '',
  partition_key text default null, labels jsonb default null, traceparent text default null
) returns table (id uuid, created boolean)
  language sql security definer set search_path = pg_catalog, pg_temp
as $$
  select ledger.item_id(emit.tenant, emit.kind, emit.business_key, emit.cycle, emit.effective_date),
    not exists (
      select from ledger.emit_items(
        array[emit.tenant], array[emit.kind], array[emit.lane], array[1],
        array[emit.business_key], array[emit.cycle], array[emit.effective_date], array[emit.due_at],
        array[emit.payload::text],
        -- A login that emits for the first time, or is bound to tenants, is looked at more closely.
        (select coalesce(
          (select a.actor_no from ledger.actor a
           where a.name = 'service:' || session_user
             and not exists (select from ledger.emitter_tenant e where e.login = session_user)),
          ledger.emitting_actor(emit.tenant))),
        partition_keys => array[emit.partition_key], labels => array[emit.labels::text],
        traceparents => array[emit.traceparent]));
$$;

comment on function ledger.emit is
  'Emit one item inside the caller''s own transaction, from any language. Emitting it again changes nothing.';
revoke execute on function ledger.emit from public;
