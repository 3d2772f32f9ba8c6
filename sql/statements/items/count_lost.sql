-- Count the items of a range of effective dates less those pending, handed out, running, parked or ended: items without a state, less those with two.
-- returns: one
-- roles: upkeep
-- $1 from_date date
-- $2 to_date date
-- index: due_item_pkey, transition_terminal_idx
-- locks: none
with locked_default as (select from ledger.due_item_default)
select (
    select count(*) from ledger.due_item i where i.effective_date >= $1::date and i.effective_date < $2::date
  ) - (
    select count(*) from ledger.transition t
    where t.effective_date >= $1::date and t.effective_date < $2::date
      and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
  ) - (
    select count(*) from ledger.pending p
    where p.effective_date >= $1::date and p.effective_date < $2::date
      and exists (
        select from ledger.due_item i where i.effective_date = p.effective_date and i.item_no = p.item_no offset 0)
  ) - (
    select count(*) from ledger.review r
    where r.effective_date >= $1::date and r.effective_date < $2::date
      and exists (
        select from ledger.due_item i where i.effective_date = r.effective_date and i.item_no = r.item_no offset 0)
  ) - (
    select count(*) from ledger.open_item o where o.effective_date >= $1::date and o.effective_date < $2::date
  ) as lost
