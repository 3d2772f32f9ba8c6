-- Find which of these ids a row has whose effective date is not the one of its id, as only an edit can leave it.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 ids uuid[]
-- index: due_item_id_effective_date_key
-- locks: none
with locked_default as (select from ledger.due_item_default)
select uuid_send(u.id) as id
from unnest($1::uuid[]) u (id)
-- One look-up in each month for each: a join may read all items.
where exists (
  select from (select i.effective_date from ledger.due_item i where i.id = u.id offset 0) i
  where i.effective_date <> ledger.effective_date_of(u.id))
