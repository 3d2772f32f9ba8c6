-- List endings of effective dates whose item does not exist, up to a limit.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 from_date date
-- $2 to_date date
-- $3 limit integer
-- index: transition_terminal_idx
-- locks: none
with locked_default as (select from ledger.due_item_default)
select t.item_no, t.effective_date, t.event, t.at
from ledger.transition t
where t.effective_date >= $1::date and t.effective_date < $2::date
  and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
  and not exists (
    select from ledger.due_item i
    where i.effective_date = t.effective_date and i.item_no = t.item_no
      and i.effective_date >= $1::date and i.effective_date < $2::date)
limit $3::integer
