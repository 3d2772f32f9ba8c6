-- A type with a name: the columns of a record are put together anew in each statement, twice.
create type ledger.emission as (id uuid, created boolean);

comment on type ledger.emission is 'An emitted item, and whether it is new.';

-- One look-up finds all that an emission needs where nothing of it is new but the item; the rest is left to
-- ledger.emit_items, whose plan takes longer to set up than one item takes. Both write the same rows.
create function ledger.emit(
  tenant text, kind text, business_key text, effective_date date, due_at timestamptz,
  payload json default '{}', cycle text default '', lane text default '',
  partition_key text default null, labels jsonb default null, traceparent text default null
) returns ledger.emission
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  id uuid := ledger.item_id(tenant, kind, business_key, cycle, effective_date);
  created boolean;
  emitted_at timestamptz := ledger.now();
  available_at timestamptz := greatest(due_at, emitted_at);
  -- Computed here and not in the queries: each execution of a query sets up its expressions anew.
  emitter text := ledger.emitter_name();
  flow_no integer;
  kind_no integer;
  ordering text;
  actor_no bigint;
  tenants text[];
  item_no bigint;
  serial bigint;
  serial_due_at timestamptz;
  overlap smallint;
begin
  -- The partition of a month from 2020 to 2049 has this name (ledger.partition_name), and none of its keys is retired. Asking
  -- whether it is updatable takes and releases a lock of it, as asking for its size in ledger.emit_items, and so reads what
  -- other sessions did to it; 0 if it is gone. It asks no file system.
  if pg_relation_is_updatable(to_regclass(to_char(effective_date::timestamp, '"ledger.due_item_"YYYYMM')), false) > 0 then
    select f.flow_no, f.kind_no, f.ordering, a.actor_no, a.tenants into flow_no, kind_no, ordering, actor_no, tenants
    from ledger.flow f, ledger.actor a
    where f.tenant = emit.tenant and f.kind = emit.kind and f.lane = emit.lane and a.name = emitter;
  end if;
  if flow_no is null or not coalesce(tenant = any (tenants), tenants is null) then
    created := not exists (
      select from ledger.emit_items(
        array[tenant], array[kind], array[lane], array[1], array[business_key], array[cycle], array[effective_date],
        array[due_at], array[payload::text], ledger.emitting_actor(tenant), partition_keys => array[partition_key],
        labels => array[labels::text], traceparents => array[traceparent]));
    return (id, created);
  end if;

  if ordering = 'key' then
    serial := ledger.serial_of(kind_no, coalesce(partition_key, business_key));
    serial_due_at := due_at;
    overlap := 1;
  end if;
  if traceparent is not null then
    traceparent := ledger.usable_traceparent(traceparent);
  end if;
  -- Two statements: where an insert reads what another one returns, they take 4 % more.
  insert into ledger.due_item as i (
    effective_date, id, flow_no, business_key, cycle, due_at, partition_key, payload, labels, traceparent, emitted_at,
    actor_no, serial, overlap)
  values (
    effective_date, id, flow_no, business_key, cycle, due_at, partition_key, payload, labels, traceparent, emitted_at,
    actor_no, serial, overlap)
  on conflict do nothing
  returning i.item_no into item_no;
  created := found;
  if created then
    insert into ledger.pending (item_no, effective_date, flow_no, available_at, serial, serial_due_at, overlap)
    values (item_no, effective_date, flow_no, available_at, serial, serial_due_at, overlap);
    if to_timestamp(pg_sequence_last_value('ledger.sleep_until'::regclass)) >= available_at then
      perform ledger.wake_sleepers(array[flow_no], array[available_at]);
    end if;
  end if;
  return row(id, created)::ledger.emission;  -- else Postgres makes a type for it first
end $$;

comment on function ledger.emit is
  'Emit one item inside the caller''s own transaction, from any language. Emitting it again changes nothing.';
revoke execute on function ledger.emit from public;
