-- What a newer tz database changes is drawn up whole, reviewed by its digest, and applied as one recorded change.
-- Nothing is released yet, so no ledger with data waits for these locks.
-- squawk-ignore-file require-concurrent-index-creation, ban-drop-function

create table ledger.zone_change (
  -- Without gaps: one at a time is drawn up, and what was only looked at leaves no number.
  change_no bigint primary key,
  -- Of all that it changes; null only in the transaction that draws it up.
  digest text,
  tzdata text not null,
  -- The databases that had placed what it changes.
  tzdata_before text[] not null default '{}',
  from_at timestamptz,
  opened_at timestamptz not null,
  closed_at timestamptz,
  actor_no integer not null references ledger.actor
);

-- One at a time is applied.
create unique index zone_change_open_idx on ledger.zone_change ((true)) where closed_at is null;

-- One version of a definition in a change: applied in one transaction, `items` of its steps took effect.
create table ledger.zone_change_part (
  change_no bigint not null references ledger.zone_change,
  definition_no bigint not null references ledger.definition,
  -- When the next version takes over, as it was when the change was drawn up.
  superseded_at timestamptz,
  failure text,
  applied_at timestamptz,
  items integer,
  -- Another version was defined before it was applied: nothing of it took effect.
  overtaken boolean not null default false,
  primary key (change_no, definition_no)
);

-- One item in a change; `at` is when it is due, or is to be where it is added. Append only.
create table ledger.zone_change_step (
  change_no bigint not null,
  definition_no bigint not null,
  at timestamptz not null,
  id uuid not null,
  step text not null check (step in ('moved', 'withdrawn', 'skipped', 'added')),
  cycle text not null,
  zone text not null,
  due_at timestamptz,
  decision text,
  skip_reason text,
  tzdata_before text,
  draft jsonb,
  primary key (change_no, definition_no, at, id),
  foreign key (change_no, definition_no) references ledger.zone_change_part
);

grant select, insert, update on ledger.zone_change, ledger.zone_change_part to ledger_worker;
grant select, insert on ledger.zone_change_step to ledger_worker;
grant select on ledger.zone_change, ledger.zone_change_part, ledger.zone_change_step to ledger_auditor;

drop function ledger.move_items(bigint, uuid[], timestamptz[], text[], text[], text, integer);

-- Let items of a version be due at other instants that were never handed out and are still to come (Scheduled). Deadlines
-- move along. One without an instant ends: as Skipped where a reason is given, as Superseded otherwise.
-- Answers which moved or ended.
create function ledger.move_items(
  definition_no bigint, ids uuid[], due_ats timestamptz[], decisions text[], skip_reasons text[], tzdata text, actor integer,
  change_no bigint
) returns table (ord bigint)
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set jit = off
as $$
begin
  return query
  with standing as materialized (
    select n.ord, n.due_at as moved_to, n.decision as decided, n.skip_reason, i as item
    from unnest(ids, due_ats, decisions, skip_reasons) with ordinality n (id, due_at, decision, skip_reason, ord)
    join ledger.due_item i on i.id = n.id
    where i.definition_no = move_items.definition_no and i.due_at > ledger.now()
      and i.tzdata is distinct from move_items.tzdata
      and not exists (select from ledger.expedited x where x.item_no = i.item_no)
  ),
  locked as materialized (
    select p.item_no
    from standing s
    join ledger.pending p on p.item_no = (s.item).item_no
    where p.state = 1 /* Scheduled */ and p.attempt = 0 and p.starts = 0
    order by p.item_no
    for update of p
  ),
  taken as materialized (
    select s.* from standing s join locked l on l.item_no = (s.item).item_no
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
      available_at = case when p.available_at = 'infinity' then p.available_at else greatest(t.moved_to, ledger.now()) end
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
        'reason', coalesce(t.skip_reason, 'tzdata'), 'due_at', t.moved_to, 'tzdata', move_items.tzdata,
        'zone_change', move_items.change_no,
        'before', jsonb_build_object(
          'due_at', (t.item).due_at, 'tzdata', (t.item).tzdata, 'decision', (t.item).decision)))
    from taken t
  )
  select t.ord from taken t order by t.ord;
end $$;

revoke execute on function ledger.move_items(bigint, uuid[], timestamptz[], text[], text[], text, integer, bigint) from public;
grant execute on function ledger.move_items(bigint, uuid[], timestamptz[], text[], text[], text, integer, bigint) to ledger_worker;
