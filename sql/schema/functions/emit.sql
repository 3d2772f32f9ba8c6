-- One look-up finds all that an emission needs where nothing of it is new but the item; the rest is left to
-- ledger.emit_items, whose plan takes longer to set up than one item takes. Both write the same rows.
create function ledger.emit(
  tenant text, kind text, business_key text, effective_date date, due_at timestamptz,
  payload json default '{}', cycle text default '', lane text default '',
  partition_key text default null, labels jsonb default null, traceparent text default null,
  out id uuid, out created boolean
)
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  emitted_at timestamptz := ledger.now();
  -- Computed here and not in the look-up: each execution of a query sets up its expressions anew.
  emitter text := ledger.emitter_name();
  starts_on date := ledger.partition_start(effective_date);
  flow_no integer;
  kind_no integer;
  ordered boolean;
  actor_no bigint;
  serial bigint;
  overlap smallint;
  item_no bigint;
  leaf regclass;
begin
  id := ledger.item_id(tenant, kind, business_key, cycle, effective_date);

  select f.flow_no, f.kind_no, k.ordering = 'key', a.actor_no, p.leaf into flow_no, kind_no, ordered, actor_no, leaf
  from ledger.kind k, ledger.flow f, ledger.actor a, ledger.partition_span p
  where k.tenant = emit.tenant and k.name = emit.kind and f.kind_no = k.kind_no and f.lane = emit.lane
    and a.name = emitter and (a.tenants is null or emit.tenant = any (a.tenants))
    and p.parent = 'due_item' and p.starts_on = starts_on and not p.has_retired;
  -- Asking for the size reads what other sessions did to the partition, as in ledger.emit_items.
  if flow_no is null or pg_relation_size(leaf, 'init') is null then
    created := not exists (
      select from ledger.emit_items(
        array[tenant], array[kind], array[lane], array[1], array[business_key], array[cycle], array[effective_date],
        array[due_at], array[payload::text], ledger.emitting_actor(tenant), partition_keys => array[partition_key],
        labels => array[labels::text], traceparents => array[traceparent]));
    return;
  end if;

  if ordered then
    serial := ledger.serial_of(kind_no, coalesce(partition_key, business_key));
    overlap := 1;
  end if;
  if traceparent is not null then
    traceparent := ledger.usable_traceparent(traceparent);
  end if;
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
    values (
      item_no, effective_date, flow_no, greatest(due_at, emitted_at), serial, case when serial is not null then due_at end,
      overlap);
  end if;
end $$;

comment on function ledger.emit is
  'Emit one item inside the caller''s own transaction, from any language. Emitting it again changes nothing.';
revoke execute on function ledger.emit from public;
