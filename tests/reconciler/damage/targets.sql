-- Items that may be edited, and a log of what edits change, written whatever guards are off.
create schema damage;
create table damage.target as
select i.item_no, i.id, i.effective_date, k.tenant, k.name as kind, false as is_taken, x.is_serial,
  coalesce(e.name, case when p.item_no is not null then 'waiting' when r.item_no is not null then 'parked'
    when h.item_no is not null then case h.state when 2 /* Claimed */ then 'claimed' else 'running' end end) as state,
  t.run_no in (select u.run_no from ledger.run u join ledger.claim c using (fence) where c.topic <> 'due.bulk') as by_kafka
from ledger.due_item i
join ledger.flow f using (flow_no)
join ledger.kind k using (kind_no)
left join ledger.transition t on t.item_no = i.item_no and t.event in (5, 11, 12, 13, 14)
left join ledger.transition_event e on e.event = t.event
left join ledger.pending p on p.item_no = i.item_no and p.starts = 0
left join ledger.review r on r.item_no = i.item_no
left join ledger.open_item h on h.item_no = i.item_no
cross join lateral (select i.serial is not null as is_serial) x;
create unique index on damage.target (item_no);
alter table damage.target add column fence bigint;
update damage.target t set fence = c.fence
from ledger.claim c cross join lateral unnest(c.item_no) u (item_no) where u.item_no = t.item_no and t.by_kafka;

create table damage.log (log_no bigint generated always as identity, edit text, relation regclass, was text, became text);
create function damage.log() returns trigger language plpgsql as $$
begin
  if coalesce(current_setting('damage.edit', true), '') <> '' then
    insert into damage.log (edit, relation, was, became)
    select current_setting('damage.edit'), tg_relid,
      case when tg_op <> 'INSERT' then old::text end, case when tg_op <> 'DELETE' then new::text end;
  end if;
  return null;
end $$;
do $$
declare
  target regclass;
begin
  foreach target in array array[
    'ledger.due_item', 'ledger.transition', 'ledger.pending', 'ledger.review', 'ledger.held_key', 'ledger.claim',
    'ledger.run', 'ledger.event', 'ledger.definition', 'public.policy_due', 'public.booking']::regclass[]
  loop
    execute format(
      'create trigger damage_log after insert or update or delete on %s for each row execute function damage.log()',
      target);
  end loop;
  for target in select tgrelid from pg_trigger where tgname = 'damage_log' loop
    execute format('alter table only %s enable always trigger damage_log', target);
  end loop;
end $$;
