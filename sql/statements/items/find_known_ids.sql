-- Find which of these ids the ledger has, or had before their partition was dropped.
-- returns: zero or more
-- roles: auditor, materialiser, reconciler
-- $1 ids uuid[]
-- index: due_item_id_effective_date_key
-- locks: none
with locked_default as (select from ledger.due_item_default)
select uuid_send(u.id) as id
from unnest($1::uuid[]) u (id)
where exists (select from ledger.due_item i where i.id = u.id and i.effective_date = ledger.effective_date_of(u.id))
  or u.id in (select r.id from ledger.find_retired($1::uuid[]) r (id))
