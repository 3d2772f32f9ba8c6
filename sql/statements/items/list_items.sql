-- List items with their states, latest effective date first.
-- returns: zero or more
-- roles: auditor, operator
-- $1 tenant text
-- $2 kind text
-- $3 business_key text
-- $4 state text
-- $5 label text
-- $6 label_value text
-- $7 limit integer
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default)
select i.id, k.tenant, k.name as kind, f.lane, i.business_key, i.cycle, i.effective_date, i.due_at, s.name as state,
  coalesce(p.attempt, r.attempt, t.attempt) as attempt, p.available_at, t.at as ended_at
from ledger.due_item i
join ledger.flow f on f.flow_no = i.flow_no
join ledger.kind k on k.kind_no = f.kind_no
left join ledger.pending p on p.item_no = i.item_no
left join ledger.review r on r.item_no = i.item_no
left join ledger.transition t on t.item_no = i.item_no and t.effective_date = i.effective_date
  and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
left join ledger.transition_event e on e.event = t.event
left join ledger.open_item o on o.item_no = i.item_no and o.effective_date = i.effective_date
  and p.item_no is null and r.item_no is null and t.item_no is null
join ledger.state s on s.state = coalesce(e.after_state, p.state, case when r.item_no is not null then 5 /* ManualReview */ end, o.state)
where ($1::text is null or k.tenant = $1::text)
  and ($2::text is null or k.name = $2::text)
  and ($3::text is null or i.business_key = $3::text)
  and ($4::text is null or s.name = $4::text)
  and ($5::text is null or i.labels ->> $5::text = $6::text)
order by i.effective_date desc, i.item_no desc
limit $7::integer
