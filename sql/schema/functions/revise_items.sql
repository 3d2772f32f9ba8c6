create function ledger.revise_items(
  flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[],
  business_keys text[], cycles text[], effective_dates date[], due_ats timestamptz[], payloads text[],
  actor bigint, since timestamptz[], definition_nos bigint[], reason text,
  partition_keys text[] default null, labels text[] default null,
  start_bys timestamptz[] default null, complete_bys timestamptz[] default null, tzdata text default null,
  nominals text[] default null, zones text[] default null, decisions text[] default null,
  smears double precision[] default null, skip_reasons text[] default null,
  overlap_rules smallint[] default null, overlap_keys text[] default null,
  event_nos bigint[] default null, replaced_event_nos bigint[] default null, traceparents text[] default null
) returns table (ord bigint, result text)
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set enable_hashjoin = on set jit = off
as $$
begin
  return query
  with locked_default as (select from ledger.due_item_default),
  flow as materialized (
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
      flow_of, business_keys, cycles, effective_dates, due_ats, payloads, since, definition_nos, partition_keys,
      labels, start_bys, complete_bys, nominals, zones, decisions, smears, skip_reasons, overlap_rules, overlap_keys,
      event_nos, traceparents
    ) with ordinality n (
      flow_of, business_key, cycle, effective_date, due_at, payload, since, definition_no, partition_key,
      label, start_by, complete_by, nominal, zone, decision, smear, skip_reason, overlap, overlap_key,
      event_no, traceparent, ord
    )
    join flow f on f.ord = n.flow_of
  ),
  existing as materialized (
    select n.ord, i as item, n as given, was.version as version_before,
      i.definition_no = n.definition_no as own,
      case
        when n.event_no is not null then i.event_no = any (replaced_event_nos)
        else was.version < will.version
          and i.due_at - make_interval(secs => coalesce(i.smear_seconds, 0)) >= n.since
      end
      and not exists (select from ledger.expedited x where x.item_no = i.item_no) as movable,
      -- In the same zone, another tz database may have moved the same occurrence.
      i.due_at - make_interval(secs => coalesce(i.smear_seconds, 0)) <> n.due_at - make_interval(secs => coalesce(n.smear, 0))
      and (i.zone is distinct from n.zone or i.tzdata is not distinct from revise_items.tzdata) as elsewhere,
      t.event as ended_by, t.detail ->> 'reason' as ended_for
    from input n
    join ledger.due_item i on i.id = n.id and i.effective_date = n.effective_date
    join ledger.definition was on was.definition_no = i.definition_no
    join ledger.definition will on will.definition_no = n.definition_no
      and (n.event_no is not null or will.tenant = was.tenant and will.name = was.name)
    left join ledger.transition t on t.item_no = i.item_no and t.effective_date = i.effective_date
      and t.event in (12 /* superseded */, 13 /* skipped */)
  ),
  locked as materialized (
    select p.item_no, s.ord
    from existing s
    join ledger.pending p on p.item_no = (s.item).item_no
    where s.movable and p.state = 1 /* Scheduled */ and p.attempt = 0 and p.starts = 0
    order by p.item_no
    for update of p
  ),
  taken as materialized (
    select s.* from locked l join existing s on s.ord = l.ord
  ),
  revised as (
    update ledger.due_item i
    set flow_no = (t.given).flow_no, due_at = (t.given).due_at, start_by = (t.given).start_by,
      complete_by = (t.given).complete_by, partition_key = (t.given).partition_key, payload = (t.given).payload::json,
      labels = (t.given).label::jsonb, definition_no = (t.given).definition_no, tzdata = revise_items.tzdata,
      nominal = (t.given).nominal, zone = (t.given).zone, decision = (t.given).decision,
      smear_seconds = (t.given).smear, serial = (t.given).serial, overlap = (t.given).how,
      event_no = coalesce((t.given).event_no, i.event_no),
      traceparent = case
        when (t.given).event_no is null then i.traceparent else ledger.usable_traceparent((t.given).traceparent) end
    from taken t
    where i.effective_date = (t.item).effective_date and i.item_no = (t.item).item_no
  ),
  moved as (
    update ledger.pending p
    set flow_no = (t.given).flow_no, serial = (t.given).serial, overlap = (t.given).how,
      serial_due_at = case when (t.given).serial is not null then (t.given).due_at end,
      -- Items that wait for a held key keep waiting: the statement that frees the key wakes them.
      available_at = case
        when p.available_at = 'infinity' and p.serial is not distinct from (t.given).serial then p.available_at
        else greatest(ledger.available_from((t.given).due_at, (t.item).due_at, p.available_at), p.snoozed_until) end
    from taken t
    where p.item_no = (t.item).item_no and (t.given).skip_reason is null
  ),
  ended as (
    delete from ledger.pending p using taken t
    where p.item_no = (t.item).item_no and (t.given).skip_reason is not null
    returning p.item_no
  ),
  obsolete as (
    delete from ledger.withdrawal w where w.item_no = any (array(select e.item_no from ended e))
  ),
  journal as (
    insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
    select (t.item).effective_date, (t.item).item_no,
      case when (t.given).skip_reason is null then 15 /* revised */ else 13 /* skipped */ end, 0, actor, ledger.now(),
      case when (t.given).skip_reason is null then jsonb_build_object('reason', reason)
      else ledger.skip_detail((t.given).skip_reason) end
      || jsonb_build_object(
        'due_at', (t.given).due_at, 'tzdata', revise_items.tzdata,
        'before', jsonb_strip_nulls(jsonb_build_object(
          'version', t.version_before, 'due_at', (t.item).due_at, 'tzdata', (t.item).tzdata, 'zone', (t.item).zone,
          'decision', (t.item).decision, 'smear_seconds', (t.item).smear_seconds, 'labels', (t.item).labels,
          'start_by', (t.item).start_by, 'complete_by', (t.item).complete_by,
          'partition_key', (t.item).partition_key, 'flow_no', (t.item).flow_no,
          'event_no', case when (t.given).event_no is not null then (t.item).event_no end,
          'payload', case when (t.item).payload::text <> (t.given).payload then (t.item).payload::text end)))
    from taken t
  )
  select s.ord,
    case
      when exists (select from locked l where l.ord = s.ord) then 'revised'
      when s.own and (s.ended_by, s.ended_for) is distinct from (12 /* superseded */, 'version') then 'same'
      when s.ended_by = 12 /* superseded */ or s.elsewhere then 'next'
      when s.ended_by = 13 /* skipped */ and (s.given).skip_reason is not null then 'skipped'
      when s.ended_for <> 'overlap' then 'next'
      else 'begun'
    end
  from existing s
  order by s.ord;
end $$;

comment on function ledger.revise_items is
  'Let a newer version''s terms apply to items of older versions that were never handed out (Scheduled), are '
  'due at `since` or later, and were not expedited; `skip_reasons` ends them as Skipped, under the newer terms. The journal keeps '
  'the terms before. Returns `revised`; `same` where the version itself emitted the item and no newer one withdrew it; `next` where the occurrence is '
  'the next issue: the item was withdrawn, was skipped by older terms, or is another occurrence of the same nominal '
  'time, at another instant; `skipped` where both versions skip it; `begun` where the item stays as it is; no row where '
  'there is no item. With `event_nos`, events give the terms of items that one of `replaced_event_nos` gave, whatever their '
  'definition and `since`.';
revoke execute on function ledger.revise_items from public;
