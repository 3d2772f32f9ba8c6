-- Find the items of business keys that are in a state to which a verb is applied.
-- returns: zero or more
-- roles: operator
-- $1 verb text
-- $2 tenant text
-- $3 kind text
-- $4 lane text
-- $5 business_keys text[]
-- $6 limit integer
-- index: due_item_key_idx
-- locks: none
with locked_default as (select from ledger.due_item_default)
select i.id
from ledger.flow f
cross join unnest($5::text[]) u (business_key)
join ledger.due_item i on i.business_key = u.business_key and i.flow_no = f.flow_no
left join ledger.pending p on p.item_no = i.item_no
left join ledger.review r on r.item_no = i.item_no
left join lateral (
  select o.state from ledger.open_item o
  where o.item_no = i.item_no and p.item_no is null and r.item_no is null
    and not exists (
      select from ledger.transition t
      where t.item_no = i.item_no and t.effective_date = i.effective_date
        and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */))
  limit 1
) o on true
join ledger.operation_state v
  on v.verb = $1::text and v.state = coalesce(p.state, case when r.item_no is not null then 5 /* ManualReview */ end, o.state)
where f.tenant = $2::text and ($3::text is null or f.kind = $3::text) and ($4::text is null or f.lane = $4::text)
order by i.business_key, i.effective_date, i.item_no
limit $6::integer
