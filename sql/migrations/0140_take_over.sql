-- A newer version of a definition takes over at its time: up to when each one is expanded, and how what waits changes hands.
-- Nothing is released yet, so no ledger with data waits for these locks.
-- squawk-ignore-file require-concurrent-index-deletion, require-concurrent-index-creation, constraint-missing-not-valid, adding-field-with-default, prefer-text-field

insert into ledger.transition_event (event, name, after_state) values (15, 'revised', 1);
insert into ledger.permitted_transition (event, before_state) values (15, 1);

-- Up to when a version decides. Set by who supersedes it, which waits for whoever is expanding it.
alter table ledger.materialised add column ends_at timestamptz not null default 'infinity';

update ledger.materialised m
set ends_at = v.effective_from
from (
  select o.definition_no, min(n.effective_from) as effective_from
  from ledger.definition o
  join ledger.definition n on n.tenant = o.tenant and n.name = o.name and n.version > o.version
  group by o.definition_no
) v
where v.definition_no = m.definition_no;

-- What is expanded up to its end is never looked at again.
drop index ledger.materialised_until_idx;
create index materialised_until_idx on ledger.materialised (materialised_until) where materialised_until < ends_at;

-- Let a newer version's terms, or a newer tz database's, hold for items of the same definition that stand already:
-- Scheduled, never handed out, due at `since` or later, not wanted by a person. `skip_reasons`, where given, ends them as
-- Skipped instead. The terms before stand in the journal. Answers: revised; same, where the version itself emitted it, by
-- whatever calendar or tz database; superseded, where a version ended it that was itself superseded; begun, where the
-- item stays as it is; none where none stands.
create function ledger.revise_items(
  flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[],
  business_keys text[], cycles text[], effective_dates date[], due_ats timestamptz[], payloads text[],
  actor integer, since timestamptz[], definition_nos bigint[], reason text,
  partition_keys text[] default null, labels text[] default null,
  start_bys timestamptz[] default null, complete_bys timestamptz[] default null, tzdata text default null,
  nominals text[] default null, zones text[] default null, decisions text[] default null,
  smears double precision[] default null, skip_reasons text[] default null,
  overlap_rules smallint[] default null, overlap_keys text[] default null
) returns table (ord bigint, answer text)
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set enable_hashjoin = on set jit = off
as $$
begin
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
      flow_of, business_keys, cycles, effective_dates, due_ats, payloads, since, definition_nos, partition_keys,
      labels, start_bys, complete_bys, nominals, zones, decisions, smears, skip_reasons, overlap_rules, overlap_keys
    ) with ordinality n (
      flow_of, business_key, cycle, effective_date, due_at, payload, since, definition_no, partition_key,
      label, start_by, complete_by, nominal, zone, decision, smear, skip_reason, overlap, overlap_key, ord
    )
    join flow f on f.ord = n.flow_of
  ),
  standing as materialized (
    select n.ord, i as item, n as given, was.version as version_before,
      i.definition_no = n.definition_no as own,
      i.definition_no <> n.definition_no
      and i.due_at - make_interval(secs => coalesce(i.smear_seconds, 0)) >= n.since
      and not exists (select from ledger.expedited x where x.item_no = i.item_no) as movable,
      exists (
        select from ledger.transition t
        where t.item_no = i.item_no and t.effective_date = i.effective_date and t.event = 12 /* superseded */
          and t.detail ->> 'reason' = 'version') as superseded
    from input n
    join ledger.due_item i on i.id = n.id and i.effective_date = n.effective_date
    join ledger.definition was on was.definition_no = i.definition_no
    join ledger.definition will on will.definition_no = n.definition_no
      and will.tenant = was.tenant and will.name = was.name
  ),
  locked as materialized (
    select p.item_no, s.ord
    from standing s
    join ledger.pending p on p.item_no = (s.item).item_no
    where s.movable and p.state = 1 /* Scheduled */ and p.attempt = 0 and p.starts = 0
    order by p.item_no
    for update of p
  ),
  taken as materialized (
    select s.* from locked l join standing s on s.ord = l.ord
  ),
  revised as (
    update ledger.due_item i
    set flow_no = (t.given).flow_no, due_at = (t.given).due_at, start_by = (t.given).start_by,
      complete_by = (t.given).complete_by, partition_key = (t.given).partition_key, payload = (t.given).payload::json,
      labels = (t.given).label::jsonb, definition_no = (t.given).definition_no, tzdata = revise_items.tzdata,
      nominal = (t.given).nominal, zone = (t.given).zone, decision = (t.given).decision,
      smear_seconds = (t.given).smear, serial = (t.given).serial, overlap = (t.given).how
    from taken t
    where i.effective_date = (t.item).effective_date and i.item_no = (t.item).item_no
      and (t.given).skip_reason is null
  ),
  moved as (
    update ledger.pending p
    set flow_no = (t.given).flow_no, serial = (t.given).serial, overlap = (t.given).how,
      serial_due_at = case when (t.given).serial is not null then (t.given).due_at end,
      -- What waits behind a held key goes on to: whoever frees the key wakes it.
      available_at = case
        when p.available_at = 'infinity' and p.serial is not distinct from (t.given).serial then p.available_at
        else greatest((t.given).due_at, ledger.now()) end
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
      case when (t.given).skip_reason is not null then jsonb_build_object('reason', (t.given).skip_reason)
      else jsonb_build_object(
        'reason', reason,
        'due_at', (t.given).due_at, 'tzdata', revise_items.tzdata,
        'before', jsonb_strip_nulls(jsonb_build_object(
          'version', t.version_before, 'due_at', (t.item).due_at, 'tzdata', (t.item).tzdata, 'zone', (t.item).zone,
          'decision', (t.item).decision, 'smear_seconds', (t.item).smear_seconds, 'labels', (t.item).labels,
          'start_by', (t.item).start_by, 'complete_by', (t.item).complete_by,
          'partition_key', (t.item).partition_key, 'flow_no', (t.item).flow_no,
          'payload', case when (t.item).payload::text <> (t.given).payload then (t.item).payload::text end))) end
    from taken t
  )
  select s.ord,
    case
      when exists (select from locked l where l.ord = s.ord) then 'revised'
      when s.superseded then 'superseded'
      when s.own then 'same'
      else 'begun'
    end
  from standing s
  order by s.ord;
end $$;

revoke execute on function ledger.revise_items(
  text[], text[], text[], integer[], text[], text[], date[], timestamptz[], text[], integer, timestamptz[], bigint[],
  text, text[], text[], timestamptz[], timestamptz[], text, text[], text[], text[], double precision[], text[],
  smallint[], text[]
) from public;
grant execute on function ledger.revise_items(
  text[], text[], text[], integer[], text[], text[], date[], timestamptz[], text[], integer, timestamptz[], bigint[],
  text, text[], text[], timestamptz[], timestamptz[], text, text[], text[], text[], double precision[], text[],
  smallint[], text[]
) to ledger_worker;

-- Emit the next item of a fixed delay: the same terms, due `delay_seconds` after the one before ended.
-- Not where a newer version decides by then, or decided about the one before: it has a chain of its own.
create or replace function ledger.emit_follower() returns trigger
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
  ends_at timestamptz;
begin
  select i.* into before from ledger.due_item i
  where i.effective_date = old.effective_date and i.item_no = old.item_no;
  -- Held while this commits: who supersedes the version waits, and then sees what it left.
  select m.ends_at into ends_at from ledger.materialised m where m.definition_no = old.definition_no for share;
  if greatest(due, before.due_at) >= ends_at then
    return null;
  end if;

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
    definition_nos => array[old.definition_no], tzdata => before.tzdata, nominals => array[round],
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
