-- Identity, flows and partitions are decided here, so that every language gets the same result.
create function ledger.emit_items(
  flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[],
  business_keys text[], cycles text[], effective_dates date[], due_ats timestamptz[], payloads text[],
  actor bigint,
  partition_keys text[] default null, labels text[] default null,
  start_bys timestamptz[] default null, complete_bys timestamptz[] default null,
  definition_nos bigint[] default null, event_nos bigint[] default null, tzdata text default null,
  nominals text[] default null, zones text[] default null, decisions text[] default null,
  smears double precision[] default null, traceparents text[] default null,
  skip_reasons text[] default null, overlap_rules smallint[] default null, overlap_keys text[] default null,
  ids uuid[] default null
) returns table (ord bigint)
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set enable_hashjoin = on set jit = off
as $$
declare
  made boolean;
  retired boolean;
  known bigint;
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

  -- No interleaving may route a row to a partition that this session does not know, or past one that it does not know.
  -- What a session knows is as old as its newest lock. Asking for the size takes and releases a lock of the month's
  -- partition; without one, the default partition is locked, so that none is made until this transaction ends.
  for attempt in 1..2 loop
    select bool_and(pg_relation_size(p.leaf, 'init') is not null), coalesce(bool_or(p.has_retired and p.leaf::text like '%\_again'), false)
    into made, retired
    from (
      select distinct ledger.partition_start(u.d) as starts_on
      from (select distinct d from unnest(effective_dates) d) u
    ) m
    left join ledger.partition_span p on p.parent = 'due_item' and p.starts_on = m.starts_on;
    exit when made;
    lock table ledger.due_item_default in row exclusive mode;
  end loop;

  return query
  with flow as materialized (
    select * from ledger.ensure_flows(flow_tenants, flow_kinds, flow_lanes)
  ),
  input as materialized (
    select n.*, f.flow_no,
      coalesce(n.given_id, ledger.item_id(f.tenant, f.kind, n.business_key, n.cycle, n.effective_date)) as id,
      case
        when n.overlap is not null then ledger.serial_of(f.kind_no, coalesce(n.overlap_key, n.business_key))
        when f.ordered then ledger.serial_of(f.kind_no, coalesce(n.partition_key, n.business_key))
      end as serial,
      case when n.overlap is not null then n.overlap when f.ordered then 1::smallint end as how
    from unnest(
      flow_of, business_keys, cycles, effective_dates, due_ats, payloads, partition_keys, labels,
      start_bys, complete_bys, definition_nos, event_nos, nominals, zones, decisions, smears, traceparents,
      skip_reasons, overlap_rules, overlap_keys, ids
    ) with ordinality n (
      flow_of, business_key, cycle, effective_date, due_at, payload, partition_key, labels,
      start_by, complete_by, definition_no, event_no, nominal, zone, decision, smear, traceparent,
      skip_reason, overlap, overlap_key, given_id, ord
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
    where (made and not retired) or not exists (select from ledger.retired_key r where r.id = n.id)
    order by n.id, n.ord  -- as everybody does: two who emit the same keys never wait for each other
    on conflict do nothing
    returning due_item.id, due_item.item_no, due_item.effective_date, due_item.flow_no, due_item.due_at,
      due_item.serial, due_item.overlap
  ),
  skipped as (
    insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
    select s.effective_date, s.item_no, 13 /* skipped */, 0, actor, ledger.now(),
      ledger.skip_detail(s.skip_reason)
    from (
      select distinct on (m.item_no) m.effective_date, m.item_no, n.skip_reason
      from made m join input n on n.id = m.id
      where skip_reasons is not null
      order by m.item_no, n.ord  -- twice in the batch: the first gave the terms, and says whether it is owed
    ) s
    where s.skip_reason is not null
    returning transition.item_no
  ),
  waiting as (
    insert into ledger.pending (item_no, effective_date, flow_no, available_at, serial, serial_due_at, overlap)
    select m.item_no, m.effective_date, m.flow_no, greatest(m.due_at, (select ledger.now())), m.serial,
      case when m.serial is not null then m.due_at end, m.overlap
    from made m
    where skip_reasons is null or m.item_no not in (select s.item_no from skipped s)
  )
  select x.ord
  from (
    select n.ord, m.id is null or row_number() over (partition by n.id order by n.ord) > 1 as known
    from input n left join made m on m.id = n.id
  ) x
  where (select count(*) from made) < (select count(*) from input)  -- nearly always everything is new
    and x.known
  order by x.ord;

  get diagnostics known = row_count;
  if known < cardinality(flow_of) and pg_sequence_last_value('ledger.sleep_until'::regclass) >= date_part('epoch', ledger.now()) then
    perform ledger.wake_sleepers(array_agg(w.flow_no), array_agg(w.available_at))
    from (
      select f.flow_no, greatest(min(n.due_at), ledger.now()) as available_at
      from unnest(flow_of, due_ats, skip_reasons) n (flow_of, due_at, skip_reason)
      join ledger.ensure_flows(flow_tenants, flow_kinds, flow_lanes) f on f.ord = n.flow_of
      where n.skip_reason is null
      group by f.flow_no
    ) w;
  end if;
end $$;

comment on function ledger.emit_items is
  'Emit a batch of items. `flow_of` points into the three arrays of flows; a new item with a reason in '
  '`skip_reasons` ends as Skipped; `overlap_rules` with `overlap_keys` say which items are serial, and a kind '
  'ordered by key makes them serial by partition key. `ids`, where the caller has them, are '
  'what ledger.item_id makes of each. Returns the inputs that made no row, in input order: identities emitted before, or '
  'twice in the batch.';
revoke execute on function ledger.emit_items from public;
