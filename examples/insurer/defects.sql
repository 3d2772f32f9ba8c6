-- What the defects need: the rows before, which renewals may be damaged, and how rows are put back.

create table insurer.kept (
  relation text not null,
  item_no bigint not null,
  row_before text  -- null: there was no such row
);
create table insurer.taken (item_no bigint primary key);

-- Take renewals that nothing else happened to, completed ones or ones that still wait, and keep their rows.
create function insurer.take(is_completed boolean, wanted integer) returns table (item_no bigint) language sql as $$
  with taken as (
    insert into insurer.taken
    select i.item_no
    from ledger.due_item i
    join ledger.flow f using (flow_no)
    join ledger.kind k using (kind_no)
    join insurer.policy p on p.policy_number = i.business_key and p.term = i.cycle and p.status = 'active'
      and p.expires_on = i.effective_date
    where k.name = 'PolicyRenewalDue'
      and not exists (select from insurer.taken t where t.item_no = i.item_no)
      and not exists (select from insurer.fault d where d.policy_number = i.business_key)
      and not exists (
        select from insurer.outbox o where o.policy_number = i.business_key and o.event_type <> 'PolicyActivated')
      and case when is_completed
        then exists (select from ledger.transition e where e.item_no = i.item_no and e.event = 5 /* completed */)
          and exists (select from insurer.premium_booked b where b.due_item = i.id)
        else exists (
          select from ledger.pending w where w.item_no = i.item_no and w.available_at > ledger.now() + interval '1 day')
      end
    order by md5(i.business_key)
    limit wanted
    returning item_no
  ), kept as (
    insert into insurer.kept
    select 'due_item', d.item_no, d::text from ledger.due_item d join taken using (item_no)
    union all
    select 'pending', w.item_no, w::text from ledger.pending w join taken using (item_no)
    union all
    select 'transition', e.item_no, e::text from ledger.transition e join taken using (item_no)
    union all
    select 'transition', t.item_no, null from taken t
  )
  select t.item_no from taken t
$$;

-- Put back the rows that were there, and remove those that were not. Returns how many rows are back.
create function insurer.put_back() returns bigint language sql as $$
  delete from ledger.due_item d using insurer.kept k where k.relation = 'due_item' and k.item_no = d.item_no;
  delete from ledger.pending w using insurer.kept k where k.relation = 'pending' and k.item_no = w.item_no;
  delete from ledger.transition e using insurer.kept k where k.relation = 'transition' and k.item_no = e.item_no;
  delete from ledger.review r using insurer.taken t where t.item_no = r.item_no;
  insert into ledger.due_item overriding system value
  select (row_before::ledger.due_item).* from insurer.kept where relation = 'due_item' and row_before is not null;
  insert into ledger.pending
  select (row_before::ledger.pending).* from insurer.kept where relation = 'pending' and row_before is not null;
  insert into ledger.transition
  select (row_before::ledger.transition).* from insurer.kept where relation = 'transition' and row_before is not null;
  delete from insurer.premium_booked b
  where b.term like '% again' or not exists (select from ledger.due_item d where d.id = b.due_item);
  select count(*) from insurer.kept where row_before is not null;
$$;

-- The tables were filled in the last minutes. Without statistics, `take` compares every renewal with every booking.
analyze insurer.policy, insurer.outbox, insurer.premium_booked, ledger.due_item, ledger.pending, ledger.transition;
