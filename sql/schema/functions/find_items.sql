-- Functions, because the months of these items are known only while a statement runs: then Postgres has already opened every
-- partition of a plan that no parameter excludes.
create type ledger.item_group as (
  effective_date date,
  item_nos bigint[],
  attempt smallint,
  starts smallint,
  batch_max smallint
);

comment on type ledger.item_group is 'Items with the same date, attempt, starts and batch_max.';

create function ledger.find_items(groups ledger.item_group[]) returns table (
  item_no bigint, id uuid, effective_date date, flow_no integer, business_key text, partition_key text, cycle text,
  due_at timestamptz, payload json, traceparent text, serial bigint, overlap smallint, attempt smallint, starts smallint,
  batch_max smallint
)
  language plpgsql stable rows 1000 set search_path = pg_catalog, pg_temp
as $$
declare
  first_date date;
  last_date date;
begin
  select min(g.effective_date), max(g.effective_date) into first_date, last_date from unnest(groups) g;
  -- Items of a group are read together: one index scan instead of one index descent an item.
  return query
  select i.*, g.attempt, g.starts, g.batch_max
  from unnest(groups) g
  cross join lateral (
    select i.item_no, i.id, i.effective_date, i.flow_no, i.business_key, i.partition_key, i.cycle, i.due_at, i.payload,
      i.traceparent, i.serial, i.overlap
    from ledger.due_item i
    where i.effective_date = g.effective_date and i.item_no = any (g.item_nos)
      and i.effective_date between first_date and last_date
    offset 0
  ) i;
end $$;

comment on function ledger.find_items is
  'The rows of these items, as many as are found, with what their group says. It opens the months of these items only.';

create function ledger.find_item_columns(groups ledger.item_group[]) returns table (
  effective_date date, attempt smallint, starts smallint, batch_max smallint, item_nos bigint[], ids uuid[], flow_nos integer[],
  business_keys bytea[], partition_keys bytea[], cycles text[], due_ats bytea[], payloads bytea[], traceparents text[]
)
  language plpgsql stable rows 10 set search_path = pg_catalog, pg_temp
as $$
declare
  first_date date;
  last_date date;
begin
  select min(g.effective_date), max(g.effective_date) into first_date, last_date from unnest(groups) g;
  return query
  select g.effective_date, g.attempt, g.starts, g.batch_max, i.*
  from unnest(groups) g
  cross join lateral (
    select array_agg(i.item_no), array_agg(i.id), array_agg(i.flow_no), array_agg(textsend(i.business_key)),
      case when count(i.partition_key) > 0 then array_agg(textsend(i.partition_key)) end, array_agg(i.cycle),
      array_agg(timestamptz_send(i.due_at)), array_agg(json_send(i.payload)),
      case when count(i.traceparent) > 0 then array_agg(i.traceparent) end
    from ledger.due_item i
    where i.effective_date = g.effective_date and i.item_no = any (g.item_nos)
      and i.effective_date between first_date and last_date
    having count(*) > 0
  ) i;
end $$;

comment on function ledger.find_item_columns is
  'As find_items, one row a group: its items as columns, with the bytes of keys, times and payloads; null for a column of nulls.';

create function ledger.find_due_at(effective_date date, item_no bigint) returns timestamptz
  language plpgsql stable strict set search_path = pg_catalog, pg_temp
as $$
begin
  return (
    select i.due_at from ledger.due_item i
    where i.effective_date = find_due_at.effective_date and i.item_no = find_due_at.item_no);
end $$;

comment on function ledger.find_due_at is 'When an item is due; null where it is not found.';

create function ledger.find_ended_at(effective_date date, item_no bigint) returns timestamptz
  language plpgsql stable strict set search_path = pg_catalog, pg_temp
as $$
begin
  return (
    select t.at from ledger.transition t
    where t.effective_date = find_ended_at.effective_date and t.item_no = find_ended_at.item_no
      and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */));
end $$;

comment on function ledger.find_ended_at is 'When an item ended; null where it has not.';

create function ledger.find_endings(
  ords bigint[], effective_dates date[], item_nos bigint[], run_nos bigint[]
) returns table (ord bigint, event smallint, detail jsonb)
  language plpgsql stable rows 100 set search_path = pg_catalog, pg_temp
as $$
declare
  first_date date;
  last_date date;
begin
  select min(d), max(d) into first_date, last_date from unnest(effective_dates) d;
  return query
  select u.ord, coalesce(e.event, o.event), coalesce(e.detail, o.detail)
  from unnest(ords, effective_dates, item_nos, run_nos) u (ord, effective_date, item_no, run_no)
  -- An index each: usually the first has it, and then the second is not read.
  left join lateral (
    select t.event, t.detail
    from ledger.transition t
    where t.effective_date = u.effective_date and t.item_no = u.item_no and t.run_no = u.run_no
      and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
      and t.effective_date between first_date and last_date
    offset 0
  ) e on true
  left join lateral (
    select t.event, t.detail
    from ledger.transition t
    where e.event is null and t.effective_date = u.effective_date and t.item_no = u.item_no and t.run_no = u.run_no
      and t.event not in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
      and t.effective_date between first_date and last_date
    limit 1
  ) o on true;
end $$;

comment on function ledger.find_endings is
  'How items ended in runs, by ord; nulls where the journal does not say. It opens the months of these items only.';
