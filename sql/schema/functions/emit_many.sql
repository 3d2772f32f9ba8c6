create function ledger.emit_many(items json) returns table (ord bigint, id uuid, created boolean)
  language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
  unknown text;
begin
  select k.name into unknown
  from json_array_elements(items) i (item) cross join lateral json_object_keys(i.item) k (name)
  where k.name not in (
    'tenant', 'kind', 'business_key', 'effective_date', 'due_at', 'payload', 'cycle', 'lane', 'partition_key', 'labels',
    'traceparent')
  limit 1;
  if found then
    raise exception using
      errcode = 'DL002', column = unknown, message = format('an item has no member %I', unknown),
      hint = 'its members are named as the parameters of ledger.emit';
  end if;
  return query
  select e.*
  from (
    select array_agg(i.tenant), array_agg(i.kind), array_agg(i.business_key), array_agg(i.effective_date),
      array_agg(i.due_at), array_agg(i.payload::text), array_agg(i.cycle), array_agg(i.lane), array_agg(i.partition_key),
      array_agg(i.labels::text), array_agg(i.traceparent)
    from json_to_recordset(items) i (
      tenant text, kind text, business_key text, effective_date date, due_at timestamptz, payload json, cycle text,
      lane text, partition_key text, labels json, traceparent text)
  ) a (
    tenants, kinds, business_keys, effective_dates, due_ats, payloads, cycles, lanes, partition_keys, labels, traceparents)
  cross join lateral ledger.emit_arrays(
    a.tenants, a.kinds, a.business_keys, a.effective_dates, a.due_ats, a.payloads, a.cycles, a.lanes, a.partition_keys,
    a.labels, a.traceparents) e
  where a.tenants is not null;
end $$;

comment on function ledger.emit_many is
  'Emit many items, a JSON array of objects, inside the caller''s own transaction. Their members are named as the parameters '
  'of ledger.emit; a null counts as missing, and an unknown one is refused. Returns a row for each item, in order.';
revoke execute on function ledger.emit_many from public;
