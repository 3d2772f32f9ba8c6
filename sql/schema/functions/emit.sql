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
  -- Computed here and not in the look-up: each execution of a query sets up its expressions anew.
  emitter text := ledger.emitter_name();
  starts_on date := ledger.partition_start(effective_date);
  flow_no integer;
  kind_no integer;
  ordered boolean;
  actor_no bigint;
  leaf regclass;
  serial bigint;
  overlap smallint;
begin
  select f.flow_no, f.kind_no, k.ordering = 'key', a.actor_no, p.leaf into flow_no, kind_no, ordered, actor_no, leaf
  from ledger.kind k, ledger.flow f, ledger.actor a, ledger.partition_span p
  where k.tenant = emit.tenant and k.name = emit.kind and f.kind_no = k.kind_no and f.lane = emit.lane
    and a.name = emitter and (a.tenants is null or emit.tenant = any (a.tenants))
    and p.parent = 'due_item' and p.starts_on = starts_on and not p.has_retired;
  -- Asking whether the partition is updatable takes and releases a lock of it, as asking for its size in ledger.emit_items, and
  -- so reads what other sessions did to it; 0 if it is gone. It asks no file system.
  if flow_no is null or coalesce(pg_relation_is_updatable(leaf, false), 0) = 0 then
    created := not exists (
      select from ledger.emit_items(
        array[tenant], array[kind], array[lane], array[1], array[business_key], array[cycle], array[effective_date],
        array[due_at], array[payload::text], ledger.emitting_actor(tenant), partition_keys => array[partition_key],
        labels => array[labels::text], traceparents => array[traceparent]));
    return (id, created);
  end if;

  if ordered then
    serial := ledger.serial_of(kind_no, coalesce(partition_key, business_key));
    overlap := 1;
  end if;
  if traceparent is not null then
    traceparent := ledger.usable_traceparent(traceparent);
  end if;
  with made as (
    insert into ledger.due_item as i (
      effective_date, id, flow_no, business_key, cycle, due_at, partition_key, payload, labels, traceparent, emitted_at,
      actor_no, serial, overlap)
    values (
      effective_date, id, flow_no, business_key, cycle, due_at, partition_key, payload, labels, traceparent, emitted_at,
      actor_no, serial, overlap)
    on conflict do nothing
    returning i.item_no
  )
  insert into ledger.pending (item_no, effective_date, flow_no, available_at, serial, serial_due_at, overlap)
  select
    m.item_no, effective_date, flow_no, greatest(due_at, emitted_at), serial, case when serial is not null then due_at end, overlap
  from made m;
  return (id, found);
end $$;

comment on function ledger.emit is
  'Emit one item inside the caller''s own transaction, from any language. Emitting it again changes nothing.';
revoke execute on function ledger.emit from public;
