-- Emission that knows which items must not run beside each other and answers only what was there before; fixed delay.
-- Nothing is released yet, so no ledger with data waits for these locks.
-- squawk-ignore-file require-concurrent-index-deletion, require-concurrent-index-creation, constraint-missing-not-valid, ban-drop-function, adding-field-with-default, prefer-text-field

drop function ledger.emit_items(
  text[], text[], text[], integer[], text[], text[], date[], timestamptz[], text[], integer, text[], text[],
  timestamptz[], timestamptz[], bigint[], bigint[], text, text[], text[], text[], double precision[], text[], text[]);

-- Emit a batch. `flow_of` points into the three flow arrays; `skip_reasons`, where given, ends each new item as Skipped;
-- `overlap_rules` with `overlap_keys` say which items wait for each other. A kind ordered by key does so by its partition key.
-- Answers which inputs made no row, in input order: a key seen before, here or years ago, or twice in the batch.
create function ledger.emit_items(
  flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[],
  business_keys text[], cycles text[], effective_dates date[], due_ats timestamptz[], payloads text[],
  actor integer,
  partition_keys text[] default null, labels text[] default null,
  start_bys timestamptz[] default null, complete_bys timestamptz[] default null,
  definition_nos bigint[] default null, event_nos bigint[] default null, tzdata text default null,
  nominals text[] default null, zones text[] default null, decisions text[] default null,
  smears double precision[] default null, traceparents text[] default null,
  skip_reasons text[] default null, overlap_rules smallint[] default null, overlap_keys text[] default null
) returns table (ord bigint)
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
      ledger.item_id(f.tenant, f.kind, n.business_key, n.cycle, n.effective_date) as id,
      case
        when n.overlap is not null then ledger.serial_of(f.kind_no, coalesce(n.overlap_key, n.business_key))
        when f.ordered then ledger.serial_of(f.kind_no, coalesce(n.partition_key, n.business_key))
      end as serial,
      case when n.overlap is not null then n.overlap when f.ordered then 1::smallint end as how
    from unnest(
      flow_of, business_keys, cycles, effective_dates, due_ats, payloads, partition_keys, labels,
      start_bys, complete_bys, definition_nos, event_nos, nominals, zones, decisions, smears, traceparents,
      skip_reasons, overlap_rules, overlap_keys
    ) with ordinality n (
      flow_of, business_key, cycle, effective_date, due_at, payload, partition_key, labels,
      start_by, complete_by, definition_no, event_no, nominal, zone, decision, smear, traceparent,
      skip_reason, overlap, overlap_key, ord
    )
    left join flow f on f.ord = n.flow_of
  ),
  made as (
    insert into ledger.due_item (
      effective_date, id, flow_no, business_key, cycle, due_at, start_by, complete_by, partition_key, payload,
      labels, definition_no, event_no, tzdata, nominal, zone, decision, smear_seconds, traceparent,
      emitted_at, actor_no, serial, overlap)
    select n.effective_date, n.id, n.flow_no, n.business_key, n.cycle, n.due_at, n.start_by, n.complete_by,
      n.partition_key, n.payload::json, n.labels::jsonb, n.definition_no, n.event_no, emit_items.tzdata,
      n.nominal, n.zone, n.decision, n.smear, ledger.usable_traceparent(n.traceparent), (select ledger.now()), actor,
      n.serial, n.how
    from input n
    where not exists (select from ledger.retired_key r where r.id = n.id)
    order by n.id, n.ord  -- as everybody does: two who emit the same keys never wait for each other
    on conflict do nothing
    returning due_item.id, due_item.item_no, due_item.effective_date, due_item.flow_no, due_item.due_at,
      due_item.serial, due_item.overlap
  ),
  waiting as (
    insert into ledger.pending (item_no, effective_date, flow_no, available_at, serial, serial_due_at, overlap)
    select m.item_no, m.effective_date, m.flow_no, greatest(m.due_at, (select ledger.now())), m.serial,
      case when m.serial is not null then m.due_at end, m.overlap
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
  select x.ord
  from (
    select n.ord, m.id is null or row_number() over (partition by n.id order by n.ord) > 1 as known
    from input n left join made m on m.id = n.id
  ) x
  where (select count(*) from made) < (select count(*) from input)  -- nearly always everything is new
    and x.known
  order by x.ord;
end $$;

revoke execute on function ledger.emit_items(
  text[], text[], text[], integer[], text[], text[], date[], timestamptz[], text[], integer, text[], text[],
  timestamptz[], timestamptz[], bigint[], bigint[], text, text[], text[], text[], double precision[], text[], text[],
  smallint[], text[]
) from public;
grant execute on function ledger.emit_items(
  text[], text[], text[], integer[], text[], text[], date[], timestamptz[], text[], integer, text[], text[],
  timestamptz[], timestamptz[], bigint[], bigint[], text, text[], text[], text[], double precision[], text[], text[],
  smallint[], text[]
) to ledger_worker;

-- Emit the next item of a fixed delay: the same terms, due `delay_seconds` after the one before ended.
-- Not where a newer version of its definition is in force: that one has a chain of its own.
create function ledger.emit_follower() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  before ledger.due_item;
  flow record;
  due timestamptz := ledger.now() + make_interval(secs => old.delay_seconds);
  round text;
  effective date;
  name text := (select d.name from ledger.definition d where d.definition_no = old.definition_no);
  by_name boolean;
  known bigint;
begin
  if exists (
    select from ledger.definition d
    join ledger.definition n on n.tenant = d.tenant and n.name = d.name and n.version > d.version
    where d.definition_no = old.definition_no and n.effective_from <= ledger.now()
  ) then
    return null;
  end if;
  select i.* into before from ledger.due_item i
  where i.effective_date = old.effective_date and i.item_no = old.item_no;

  select k.kind_no, k.tenant, k.name as kind, f.lane into flow
  from ledger.flow f join ledger.kind k on k.kind_no = f.kind_no
  where f.flow_no = before.flow_no;
  round := to_char(due at time zone coalesce(before.zone, 'UTC'), 'YYYY-MM-DD"T"HH24:MI:SS.US');
  effective := (due at time zone coalesce(before.zone, 'UTC'))::date;
  -- Where its definition has no overlap policy, its kind says anew whether its partition key is ordered.
  by_name := coalesce(before.serial = ledger.serial_of(flow.kind_no, name), false);

  select e.ord into known
  from ledger.emit_items(
    array[flow.tenant], array[flow.kind], array[flow.lane], array[1], array[before.business_key],
    array[round], array[effective], array[due], array[before.payload::text], before.actor_no,
    partition_keys => array[before.partition_key], labels => array[before.labels::text],
    definition_nos => array[before.definition_no], tzdata => before.tzdata, nominals => array[round],
    start_bys => array[due + (before.start_by - before.due_at)],
    complete_bys => array[due + (before.complete_by - before.due_at)],
    zones => array[before.zone], overlap_rules => array[case when by_name then before.overlap end],
    overlap_keys => array[case when by_name then name end]) e;

  if known is null then
    insert into ledger.following (item_no, effective_date, definition_no, delay_seconds)
    select i.item_no, i.effective_date, old.definition_no, old.delay_seconds
    from ledger.due_item i
    where i.id = ledger.item_id(flow.tenant, flow.kind, before.business_key, round, effective);
  end if;
  return null;
end $$;

revoke execute on function ledger.emit_follower() from public;

-- At the commit: beside the statement that ends an item, no partition could be made for the next one's date.
create constraint trigger following_emits_next after delete on ledger.following
  deferrable initially deferred
  for each row execute function ledger.emit_follower();

create or replace function ledger.emit(
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
        (select coalesce(
          (select a.actor_no from ledger.actor a where a.name = 'service:' || session_user),
          ledger.register_actor('service:' || session_user, 'service'))),
        partition_keys => array[emit.partition_key], labels => array[emit.labels::text],
        traceparents => array[emit.traceparent]));
$$;

-- No statement looks items up by when they are due, and keeping it cost each emission a microsecond.
drop index ledger.due_item_due_idx;
