create function ledger.finish_items() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  ended bigint[];
begin
  -- Usually nothing is written (claims, starts and emissions), or both tables are empty.
  if not exists (select from written)
    or not exists (select from ledger.held_key) and not exists (select from ledger.following)
  then
    return null;
  end if;
  -- Arrays: with a join, a plan made while there were few rows reads all of them for each item.
  ended := array(
    select w.item_no from written w
    where w.event = any (array(
      select e.event from ledger.transition_event e join ledger.state s on s.state = e.after_state where s.terminal)));

  if exists (select from ledger.held_key) then
    with freed_by_end as (
      delete from ledger.held_key h where h.item_no = any (ended)
      returning h.serial
    ),
    freed_by_failure as (
      delete from ledger.held_key h
      where h.item_no = any (array(
        select w.item_no from written w where w.event in (6 /* failed */, 7 /* timed_out */, 9 /* parked */)))
        and exists (
          select from ledger.flow f join ledger.kind k on k.kind_no = f.kind_no
          where f.flow_no = h.flow_no and not k.failure_holds)
      returning h.serial
    ),
    freed_by_revision as (
      delete from ledger.held_key h
      where h.item_no = any (array(select w.item_no from written w where w.event = 15 /* revised */))
        and exists (select from ledger.pending p where p.item_no = h.item_no and p.serial is distinct from h.serial)
      returning h.serial
    ),
    next as materialized (
      select n.item_no
      from (
        select serial from freed_by_end union all select serial from freed_by_failure
        union all select serial from freed_by_revision
      ) freed
      cross join lateral (
        select p.item_no from ledger.pending p
        where p.serial = freed.serial and p.available_at = 'infinity'
        order by p.serial_due_at, p.item_no limit 1
        for update skip locked
      ) n
    )
    update ledger.pending p set available_at = ledger.not_before(p.item_no, p.serial_due_at)
    where p.item_no = any (array(select n.item_no from next n)) and p.available_at = 'infinity';
  end if;

  delete from ledger.following f where f.item_no = any (ended);
  return null;
end $$;

comment on function ledger.finish_items is
  'What the end of an item entails, whichever statement writes it to the journal: its key is free, the next item that '
  'waits for the key is available, and its chain goes on. A failure frees the key too, unless its kind says that '
  'failures hold it; so does a revision by which the item has another key, or none.';
revoke execute on function ledger.finish_items from public;

create trigger transition_finishes_items after insert on ledger.transition
  referencing new table as written
  for each statement execute function ledger.finish_items();
