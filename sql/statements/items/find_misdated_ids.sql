-- Find which of these ids a row has whose effective date is not the one of its id, as only an edit can leave it.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 ids uuid[]
-- index: due_item_id_effective_date_key
-- locks: none
with locked_default as (select from ledger.due_item_default)
select distinct uuid_send(i.id) as id
from unnest($1::uuid[]) u (id)
join ledger.due_item i on i.id = u.id
where i.effective_date <> ledger.effective_date_of(i.id)
