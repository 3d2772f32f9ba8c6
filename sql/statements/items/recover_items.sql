-- Make items without a state in a range of effective dates pending again (from none to Scheduled), with attempts counted anew.
-- returns: zero or more, one an item
-- roles: upkeep
-- $1 from_date date
-- $2 to_date date
-- $3 limit integer
-- $4 actor_no bigint
-- index: due_item_pkey, transition_terminal_idx, pending_pkey, review_pkey
-- locks: partitions are held by lock_partitions, in a statement before
with locked_default as (select from ledger.due_item_default),
unended as materialized (
  select i.item_no, i.effective_date
  from ledger.due_item i
  where i.effective_date >= $1::date and i.effective_date < $2::date
    and not exists (
      select from ledger.transition t
      where t.item_no = i.item_no and t.effective_date = i.effective_date
        and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */) offset 0)
    and not exists (select from ledger.pending p where p.item_no = i.item_no offset 0)
    and not exists (select from ledger.review r where r.item_no = i.item_no offset 0)
),
lost as materialized (
  select u.item_no, u.effective_date from unended u
  except
  select o.item_no, o.effective_date from ledger.open_item o
  limit $3::integer
),
found as materialized (
  select i.item_no, i.effective_date, i.id, i.flow_no, i.due_at, i.serial
  from lost l join ledger.due_item i on i.effective_date = l.effective_date and i.item_no = l.item_no
),
-- As after a redrive, a serial item waits for its key.
back as (
  insert into ledger.pending (
    item_no, effective_date, flow_no, available_at, state, serial, serial_due_at, overlap)
  select f.item_no, f.effective_date, f.flow_no, ledger.not_before(f.item_no, f.due_at), 1 /* Scheduled */,
    f.serial, case when f.serial is not null then f.due_at end, case when f.serial is not null then 1 end
  from found f
  returning flow_no, available_at
),
journal as (
  insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
  select f.effective_date, f.item_no, 16 /* recovered */, 0, $4::bigint, ledger.now(),
    jsonb_build_object('reason', 'it stood nowhere')
  from found f
)
select f.id from found f
where (select ledger.wake_sleepers(array_agg(b.flow_no), array_agg(b.available_at)) from back b)
