-- Find which of these items are a tenant's.
-- returns: zero or more
-- roles: operator
-- $1 ids uuid[]
-- $2 tenant text
-- index: due_item_id_effective_date_key
-- locks: none
with locked_default as (select from ledger.due_item_default)
select i.id
from unnest($1::uuid[]) a (id)
join ledger.due_item i on i.id = a.id and i.effective_date = ledger.effective_date_of(a.id)
join ledger.flow f on f.flow_no = i.flow_no and f.tenant = $2::text
