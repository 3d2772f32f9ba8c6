-- List kinds of which items were due between two times, after a place in the order of their names, up to a limit.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 tenant text
-- $3 kind text
-- $4 due_from timestamptz
-- $5 due_before timestamptz
-- $6 after_tenant text
-- $7 after_kind text
-- $8 limit integer
-- index: kind_name_order_idx, past_sum_pkey
-- locks: none
select k.tenant, k.name as kind
from ledger.kind k
where ($1::text[] is null or k.tenant = any ($1::text[])) and ($2::text is null or k.tenant = $2::text)
  and ($3::text is null or k.name = $3::text)
  and ($6::text is null or (k.tenant collate "C", k.name collate "C") > ($6::text, $7::text))
  and exists (
    select from ledger.past_sum s
    where s.tenant = k.tenant and s.kind = k.name and s.minutes = 15 and s.begins >= $4::timestamptz and s.begins < $5::timestamptz)
order by k.tenant collate "C", k.name collate "C"
limit $8::integer
