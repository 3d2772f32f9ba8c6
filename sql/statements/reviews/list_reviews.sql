-- List parked items, oldest first.
-- returns: zero or more
-- roles: auditor, operator
-- $1 limit integer
-- $2 tenants text[]
-- $3 tenant text
-- $4 kind text
-- $5 after_parked_at timestamptz
-- $6 after_item_no bigint
-- index: review_parked_idx
-- locks: none
with locked_default as (select from ledger.due_item_default)
select i.id, i.item_no, k.tenant, k.name as kind, f.lane, i.business_key, i.cycle, i.effective_date, i.due_at,
  r.parked_at, r.reason, r.attempt, r.starts, i.payload::text as payload
from ledger.review r
join ledger.due_item i on i.effective_date = r.effective_date and i.item_no = r.item_no
join ledger.flow f on f.flow_no = r.flow_no
join ledger.kind k on k.kind_no = f.kind_no
where ($2::text[] is null or k.tenant = any ($2::text[])) and ($3::text is null or k.tenant = $3::text)
  and ($4::text is null or k.name = $4::text)
  and ($5::timestamptz is null or (r.parked_at, r.item_no) > ($5::timestamptz, $6::bigint))
order by r.parked_at, r.item_no
limit $1::integer
