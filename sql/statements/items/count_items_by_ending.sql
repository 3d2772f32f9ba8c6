-- Count the items of a range of effective dates by tenant, kind and what ended them, if anything has.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 from_date date
-- $2 to_date date
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default)
select k.tenant, k.name as kind, s.event, sum(s.items)::bigint as items
from (
  select i.flow_no, t.event, count(*) as items
  from ledger.due_item i
  left join ledger.transition t
    on t.effective_date = i.effective_date and t.item_no = i.item_no
    and t.effective_date >= $1::date and t.effective_date < $2::date
    and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
  where i.effective_date >= $1::date and i.effective_date < $2::date
  group by i.flow_no, t.event
) s
join ledger.flow f on f.flow_no = s.flow_no
join ledger.kind k on k.kind_no = f.kind_no
group by k.tenant, k.name, s.event
