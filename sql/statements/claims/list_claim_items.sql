-- List the items of a claim by position; an item that does not exist has no id.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 fence bigint
-- $2 claimed_at timestamptz
-- index: claim_pkey, due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default)
select u.position, u.item_no, u.effective_date, uuid_send(i.id) as id
from ledger.claim c
cross join lateral unnest(c.item_no, c.effective_date) with ordinality u (item_no, effective_date, position)
left join ledger.due_item i on i.effective_date = u.effective_date and i.item_no = u.item_no
where c.fence = $1::bigint and c.claimed_at = $2::timestamptz
order by u.position
