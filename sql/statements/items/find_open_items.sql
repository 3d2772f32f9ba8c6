-- Find the items of these business keys that have not ended.
-- returns: zero or more
-- roles: intake
-- $1 tenant text
-- $2 kind text
-- $3 business_keys text[]
-- index: due_item_key_idx
-- locks: none
with locked_default as (select from ledger.due_item_default)
select i.id, i.effective_date, i.business_key, i.cycle, i.due_at, i.emitted_at
from ledger.flow f
cross join unnest($3::text[]) u (business_key)
join ledger.due_item i on i.business_key = u.business_key and i.flow_no = f.flow_no
where f.tenant = $1::text and f.kind = $2::text
  and not exists (
    select from ledger.transition t
    where t.item_no = i.item_no and t.effective_date = i.effective_date
      and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */))
order by i.business_key, i.effective_date, i.item_no
limit 100000
