create function ledger.move_items(
  definition_no bigint, ids uuid[], due_ats timestamptz[], decisions text[], skip_reasons text[], tzdata text, actor bigint,
  change_no bigint
) returns table (ord bigint)
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off
as $$
begin
  return query
  with locked_default as (select from ledger.due_item_default),
  existing as materialized (
    select n.ord, n.due_at as moved_to, n.decision as decided, n.skip_reason, i as item
    from unnest(ids, due_ats, decisions, skip_reasons) with ordinality n (id, due_at, decision, skip_reason, ord)
    join ledger.due_item i on i.id = n.id and i.effective_date = ledger.effective_date_of(n.id)
    where i.definition_no = move_items.definition_no and i.due_at > ledger.now()
      and i.tzdata is distinct from move_items.tzdata
      and not exists (select from ledger.expedited x where x.item_no = i.item_no)
  ),
  locked as materialized (
    select p.item_no
    from existing s
    join ledger.pending p on p.item_no = (s.item).item_no
    where p.state = 1 /* Scheduled */ and p.attempt = 0 and p.starts = 0
    order by p.item_no
    for update of p
  ),
  taken as materialized (
    select s.* from existing s join locked l on l.item_no = (s.item).item_no
  ),
  changed as (
    update ledger.due_item i
    set due_at = t.moved_to, decision = t.decided, tzdata = move_items.tzdata,
      start_by = i.start_by + (t.moved_to - i.due_at), complete_by = i.complete_by + (t.moved_to - i.due_at)
    from taken t
    where i.effective_date = (t.item).effective_date and i.item_no = (t.item).item_no and t.moved_to is not null
  ),
  moved as (
    update ledger.pending p
    set serial_due_at = case when p.serial is not null then t.moved_to end,
      available_at = case when p.available_at = 'infinity' then p.available_at
        else greatest(ledger.available_from(t.moved_to, (t.item).due_at, p.available_at), p.snoozed_until) end
    from taken t
    where p.item_no = (t.item).item_no and t.moved_to is not null
  ),
  ended as (
    delete from ledger.pending p using taken t
    where p.item_no = (t.item).item_no and t.moved_to is null
    returning p.item_no
  ),
  obsolete as (
    delete from ledger.withdrawal w where w.item_no = any (array(select e.item_no from ended e))
  ),
  journal as (
    insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
    select (t.item).effective_date, (t.item).item_no,
      case when t.moved_to is not null then 15 /* revised */
        when t.skip_reason is not null then 13 /* skipped */ else 12 /* superseded */ end,
      0, actor, ledger.now(),
      jsonb_strip_nulls(jsonb_build_object(
        'reason', 'tzdata', 'due_at', t.moved_to, 'tzdata', move_items.tzdata, 'tz_change', move_items.change_no,
        'before', jsonb_build_object(
          'due_at', (t.item).due_at, 'tzdata', (t.item).tzdata, 'decision', (t.item).decision)))
      || ledger.skip_detail(t.skip_reason)
    from taken t
  )
  select t.ord from taken t order by t.ord;
end $$;

comment on function ledger.move_items is
  'Let items of a version that were never handed out and are still to come (Scheduled) be due at other instants; '
  'SLA deadlines move along. An item without an instant ends, as Skipped where a reason is given, else as '
  'Superseded. Returns the inputs that moved or ended.';
revoke execute on function ledger.move_items from public;
