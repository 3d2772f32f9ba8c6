-- Emission: identity, flows and partitions are settled here, so that every language gets the same answer.

-- UUIDv8 (RFC 9562) over the first 16 bytes of SHA-256; docs/identity.md has vectors. One expression, so it is inlined.
create function ledger.item_id(tenant text, kind text, business_key text, cycle text, effective_date date) returns uuid
  language sql stable parallel safe
  return encode(
    set_bit(set_bit(set_bit(set_bit(set_bit(set_bit(
      substr(sha256(convert_to(
        tenant || chr(31) || kind || chr(31) || business_key || chr(31) || cycle || chr(31)
          || to_char(effective_date, 'YYYY-MM-DD'), 'UTF8')), 1, 16),
      55, 1), 54, 0), 53, 0), 52, 0), 71, 1), 70, 0),
    'hex')::uuid;

-- A trace context that is not in the W3C form is ignored, as the recommendation says.
create function ledger.usable_traceparent(traceparent text) returns text
  language sql immutable parallel safe
  return case when traceparent ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' then traceparent end;

-- Find or make the flow of each tenant × kind × lane, in the order given.
create function ledger.ensure_flows(tenants text[], kinds text[], lanes text[])
  returns table (ord bigint, flow_no integer, tenant text, kind text)
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into ledger.kind (tenant, name, topic)
  select distinct u.tenant, u.kind, 'due.' || u.kind
  from unnest(tenants, kinds) u (tenant, kind)
  where not exists (select from ledger.kind k where k.tenant = u.tenant and k.name = u.kind)
  order by 1, 2
  on conflict do nothing;

  insert into ledger.flow (kind_no, lane)
  select distinct k.kind_no, u.lane
  from unnest(tenants, kinds, lanes) u (tenant, kind, lane)
  join ledger.kind k on k.tenant = u.tenant and k.name = u.kind
  where not exists (select from ledger.flow f where f.kind_no = k.kind_no and f.lane = u.lane)
  order by 1, 2
  on conflict do nothing;

  return query
  select u.ord, f.flow_no, u.tenant, u.kind
  from unnest(tenants, kinds, lanes) with ordinality u (tenant, kind, lane, ord)
  join ledger.kind k on k.tenant = u.tenant and k.name = u.kind
  join ledger.flow f on f.kind_no = k.kind_no and f.lane = u.lane;
end $$;

revoke execute on function ledger.ensure_flows(text[], text[], text[]) from public;

-- Emit a batch. `flow_of` points into the three flow arrays; `skip_reasons`, where given, ends each new item as Skipped.
-- Answers in input order whether each row is new; a key seen before, here or years ago, is not.
create function ledger.emit_items(
  flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[],
  business_keys text[], cycles text[], effective_dates date[], due_ats timestamptz[], payloads text[],
  actor integer,
  partition_keys text[] default null, labels text[] default null,
  start_bys timestamptz[] default null, complete_bys timestamptz[] default null,
  definition_nos bigint[] default null, event_nos bigint[] default null, tzdata text default null,
  nominals text[] default null, zones text[] default null, decisions text[] default null,
  smears double precision[] default null, traceparents text[] default null,
  skip_reasons text[] default null
) returns table (id uuid, created boolean)
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set enable_hashjoin = on set jit = off
as $$
begin
  if exists (
    select from unnest(effective_dates) d
    where d is null or d < date '1970-01-01' or d >= date '2200-01-01'
  ) then
    raise exception using
      errcode = 'DL002', column = 'effective_date',
      message = 'effective_date is missing or lies outside 1970–2199',
      hint = 'give each item the business date it is owed for';
  end if;

  perform ledger.make_partition(parent, m.starts_on)
  from (
    select distinct ledger.partition_start(d) as starts_on from unnest(effective_dates) d
  ) m
  cross join unnest(array['due_item', 'transition']) parent
  where not exists (
    select from ledger.partition_span p where p.parent = parent.parent and p.starts_on = m.starts_on);
  perform ledger.await_partitions();

  return query
  with flow as materialized (
    select * from ledger.ensure_flows(flow_tenants, flow_kinds, flow_lanes)
  ),
  input as materialized (
    select n.*, f.flow_no,
      ledger.item_id(f.tenant, f.kind, n.business_key, n.cycle, n.effective_date) as id
    from unnest(
      flow_of, business_keys, cycles, effective_dates, due_ats, payloads, partition_keys, labels,
      start_bys, complete_bys, definition_nos, event_nos, nominals, zones, decisions, smears, traceparents,
      skip_reasons
    ) with ordinality n (
      flow_of, business_key, cycle, effective_date, due_at, payload, partition_key, labels,
      start_by, complete_by, definition_no, event_no, nominal, zone, decision, smear, traceparent,
      skip_reason, ord
    )
    left join flow f on f.ord = n.flow_of
  ),
  made as (
    insert into ledger.due_item (
      effective_date, id, flow_no, business_key, cycle, due_at, start_by, complete_by, partition_key, payload,
      labels, definition_no, event_no, tzdata, nominal, zone, decision, smear_seconds, traceparent,
      emitted_at, actor_no)
    select n.effective_date, n.id, n.flow_no, n.business_key, n.cycle, n.due_at, n.start_by, n.complete_by,
      n.partition_key, n.payload::json, n.labels::jsonb, n.definition_no, n.event_no, emit_items.tzdata,
      n.nominal, n.zone, n.decision, n.smear, ledger.usable_traceparent(n.traceparent), (select ledger.now()), actor
    from input n
    where not exists (select from ledger.retired_key r where r.id = n.id)
    order by n.id, n.ord  -- as everybody does: two who emit the same keys never wait for each other
    on conflict do nothing
    returning due_item.id, due_item.item_no, due_item.effective_date, due_item.flow_no, due_item.due_at
  ),
  waiting as (
    insert into ledger.pending (item_no, effective_date, flow_no, available_at)
    select m.item_no, m.effective_date, m.flow_no, greatest(m.due_at, (select ledger.now()))
    from made m
    where skip_reasons is null
  ),
  skipped as (
    insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
    select distinct on (m.item_no)
      m.effective_date, m.item_no, 13 /* skipped */, 0, actor, ledger.now(),
      jsonb_build_object('reason', n.skip_reason)
    from made m join input n on n.id = m.id
    where skip_reasons is not null
    order by m.item_no, n.ord
  )
  select n.id, m.id is not null and row_number() over (partition by n.id order by n.ord) = 1
  from input n left join made m on m.id = n.id
  order by n.ord;
end $$;

revoke execute on function ledger.emit_items(
  text[], text[], text[], integer[], text[], text[], date[], timestamptz[], text[], integer, text[], text[],
  timestamptz[], timestamptz[], bigint[], bigint[], text, text[], text[], text[], double precision[], text[], text[]
) from public;

-- Find or make the number of whoever acts.
create function ledger.register_actor(name text, kind text) returns integer
  language sql security definer set search_path = pg_catalog, pg_temp
as $$
  insert into ledger.actor as a (name, kind) values (register_actor.name, register_actor.kind)
  on conflict (name) do update set seen_at = statement_timestamp()
  returning a.actor_no;
$$;

revoke execute on function ledger.register_actor(text, text) from public;

-- Emit one item inside the caller's own transaction, from any language. Repeating it is harmless.
create function ledger.emit(
  tenant text, kind text, business_key text, effective_date date, due_at timestamptz,
  payload json default '{}', cycle text default '', lane text default '',
  partition_key text default null, labels jsonb default null, traceparent text default null
) returns table (id uuid, created boolean)
  language sql security definer set search_path = pg_catalog, pg_temp
as $$
  select e.id, e.created
  from ledger.emit_items(
    array[emit.tenant], array[emit.kind], array[emit.lane], array[1],
    array[emit.business_key], array[emit.cycle], array[emit.effective_date], array[emit.due_at],
    array[emit.payload::text],
    (select coalesce(
      (select a.actor_no from ledger.actor a where a.name = 'service:' || session_user),
      ledger.register_actor('service:' || session_user, 'service'))),
    partition_keys => array[emit.partition_key], labels => array[emit.labels::text],
    traceparents => array[emit.traceparent]) e;
$$;

revoke execute on function ledger.emit(
  text, text, text, date, timestamptz, json, text, text, text, jsonb, text) from public;
grant execute on function ledger.emit(
  text, text, text, date, timestamptz, json, text, text, text, jsonb, text) to ledger_emitter;
