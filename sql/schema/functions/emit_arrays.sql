create function ledger.emit_arrays(
  tenants text[], kinds text[], business_keys text[], effective_dates date[], due_ats timestamptz[],
  payloads text[] default null, cycles text[] default null, lanes text[] default null,
  partition_keys text[] default null, labels text[] default null, traceparents text[] default null
) returns table (ord bigint, id uuid, created boolean)
  language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_hashjoin = on set jit = off
as $$
declare
  actor bigint;
  flow_tenants text[];
  flow_kinds text[];
  flow_lanes text[];
  flow_of integer[];
  ids uuid[];
  known bigint[];
begin
  if (
    select count(distinct n) > 1
    from unnest(array[
      cardinality(tenants), cardinality(kinds), cardinality(business_keys), cardinality(effective_dates),
      cardinality(due_ats), cardinality(payloads), cardinality(cycles), cardinality(lanes), cardinality(partition_keys),
      cardinality(labels), cardinality(traceparents)]) n)
  then
    raise exception using
      errcode = 'DL002', column = 'tenants', message = 'the arrays differ in length',
      hint = 'give each array one element for each item, or leave it out';
  end if;
  if cardinality(tenants) = 1 then
    return query
    select 1::bigint, e.*
    from ledger.emit(
      tenants[1], kinds[1], business_keys[1], effective_dates[1], due_ats[1], coalesce(payloads[1], '{}')::json,
      coalesce(cycles[1], ''), coalesce(lanes[1], ''), partition_keys[1], labels[1]::jsonb, traceparents[1]) e;
    return;
  end if;

  with input as (
    select u.ord, u.tenant, u.kind, coalesce(u.lane, '') as lane,
      dense_rank() over (order by u.kind collate "C", u.tenant collate "C", coalesce(u.lane, '') collate "C") as flow
    from unnest(tenants, kinds, lanes) with ordinality u (tenant, kind, lane, ord)
  ),
  flow as (select distinct on (i.flow) i.flow, i.tenant, i.kind, i.lane from input i order by i.flow)
  select array_agg(f.tenant order by f.flow), array_agg(f.kind order by f.flow), array_agg(f.lane order by f.flow),
    (select array_agg(i.flow::integer order by i.ord) from input i)
  into flow_tenants, flow_kinds, flow_lanes, flow_of
  from flow f;
  select max(ledger.emitting_actor(t.tenant)) into actor from (select distinct unnest(flow_tenants)) t (tenant);
  cycles := case when cycles is null then array_fill(''::text, array[cardinality(tenants)]) else array_replace(cycles, null, '') end;
  payloads := case
    when payloads is null then array_fill('{}'::text, array[cardinality(tenants)]) else array_replace(payloads, null, '{}') end;

  -- Infinite dates have no id, and ledger.emit_items refuses them.
  select array_agg(
    case when isfinite(u.effective_date) then ledger.item_id(u.tenant, u.kind, u.business_key, u.cycle, u.effective_date) end
    order by u.ord) into ids
  from unnest(tenants, kinds, business_keys, cycles, effective_dates) with ordinality u (
    tenant, kind, business_key, cycle, effective_date, ord);
  select array_agg(e.ord) into known
  from ledger.emit_items(
    flow_tenants, flow_kinds, flow_lanes, flow_of, business_keys, cycles, effective_dates, due_ats, payloads, actor,
    partition_keys => partition_keys, labels => labels, traceparents => traceparents, ids => ids) e;
  return query
  select u.ord, u.id, k.ord is null
  from unnest(ids) with ordinality u (id, ord)
  left join unnest(known) k (ord) on k.ord = u.ord
  order by u.ord;
end $$;

comment on function ledger.emit_arrays is
  'Emit many items inside the caller''s own transaction, an element of each array for each. Arrays after `due_ats` may be '
  'left out, and so may their elements: null. Payloads and labels are JSON text. Returns a row for each input, in order.';
revoke execute on function ledger.emit_arrays from public;
