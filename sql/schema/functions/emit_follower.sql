create function ledger.emit_follower() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  before ledger.due_item;
  flow record;
  due timestamptz := ledger.now() + make_interval(secs => old.delay_seconds);
  next_cycle text;
  effective date;
  name text := (select d.name from ledger.definition d where d.definition_no = old.definition_no);
  by_name boolean;
  known bigint;
  ends_at timestamptz;
begin
  with locked_default as (select from ledger.due_item_default)
  select i.* into before from ledger.due_item i
  where i.effective_date = old.effective_date and i.item_no = old.item_no;
  perform ledger.none_lost(1, case when found then 1 else 0 end);
  -- Locked until the commit: a transaction that supersedes the version waits, and then sees this item.
  select m.ends_at into ends_at from ledger.materialised m where m.definition_no = old.definition_no for share;
  if greatest(due, before.due_at) >= ends_at then
    return null;
  end if;

  select f.kind_no, f.tenant, f.kind, f.lane into flow from ledger.flow f where f.flow_no = before.flow_no;
  next_cycle := to_char(due at time zone coalesce(before.zone, 'UTC'), 'YYYY-MM-DD"T"HH24:MI:SS.US');
  effective := (due at time zone coalesce(before.zone, 'UTC'))::date;
  -- If its definition has no overlap policy, its kind decides again whether its partition key is ordered.
  by_name := coalesce(before.serial = ledger.serial_of(flow.kind_no, name), false);

  select e.ord into known
  from ledger.emit_items(
    array[flow.tenant], array[flow.kind], array[flow.lane], array[1], array[before.business_key],
    array[next_cycle], array[effective], array[due], array[before.payload::text], before.actor_no,
    partition_keys => array[before.partition_key], labels => array[before.labels::text],
    definition_nos => array[old.definition_no], tzdata => before.tzdata, nominals => array[next_cycle],
    start_bys => array[due + (before.start_by - before.due_at)],
    complete_bys => array[due + (before.complete_by - before.due_at)],
    zones => array[before.zone], overlap_rules => array[case when by_name then before.overlap end],
    overlap_keys => array[name]) e;

  if known is null then
    insert into ledger.following (item_no, effective_date, definition_no, delay_seconds)
    select i.item_no, i.effective_date, old.definition_no, old.delay_seconds
    from ledger.due_item i
    where i.effective_date = effective
      and i.id = ledger.item_id(flow.tenant, flow.kind, before.business_key, next_cycle, effective);
  end if;
  return null;
end $$;

comment on function ledger.emit_follower is
  'Emit the next item of a schedule with a fixed delay: the same terms, due `delay_seconds` after the item before '
  'it ended. Nothing where another version decides by then, or decided about the item before: it has a chain of its '
  'own.';
revoke execute on function ledger.emit_follower from public;

-- At the commit: the statement that ends an item cannot make a partition for the date of the next one.
create constraint trigger following_emits_next after delete on ledger.following
  deferrable initially deferred
  for each row execute function ledger.emit_follower();
