-- No item vanishes: what a statement takes and what it finds in due_item are the same, and what stands nowhere is put back.

insert into ledger.transition_event (event, name, after_state) values (16, 'recovered', 1);
insert into ledger.permitted_transition (event, before_state) values (16, null);

-- When the items of a month were last counted.
alter table ledger.partition_span add column checked_at timestamptz;
grant update (checked_at) on ledger.partition_span to ledger_worker;

-- Refuse a statement that took items and did not find all of them in due_item. Postgres plans a statement and locks its
-- tables before it takes the snapshot; the plan has no partition that was attached in between, and a join drops its rows.
create function ledger.none_lost(taken bigint, seen bigint) returns boolean
  language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
begin
  if taken = seen then
    return true;
  end if;
  raise exception using
    errcode = 'DL005',
    message = format('%s items were taken and %s of them found in due_item', taken, seen),
    detail = 'A partition of due_item is newer than the plan of this statement. Nothing was changed.',
    hint = 'repeat it in a new transaction';
end $$;

revoke execute on function ledger.none_lost(bigint, bigint) from public;
grant execute on function ledger.none_lost(bigint, bigint) to ledger_worker;

-- Let no partition be made until the transaction ends; false where one is being made. Whoever makes one keeps a lock on
-- this table until other sessions have heard of it, so a statement behind this one has all that its snapshot shows.
create function ledger.lock_partitions() returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  lock table ledger.partition_span in share mode nowait;
  return true;
exception when lock_not_available then
  return false;
end $$;

revoke execute on function ledger.lock_partitions() from public;
grant execute on function ledger.lock_partitions() to ledger_worker;

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
  perform ledger.none_lost(1, case when found then 1 else 0 end);
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
