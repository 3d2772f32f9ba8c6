-- Find which of these occurrences are items of a definition of another name, and which of those a newer version ended.
-- returns: zero or more, one an input that is such an item
-- roles: materialiser
-- $1 ids uuid[]
-- $2 effective_dates date[]
-- $3 definition_nos bigint[]
-- index: due_item_id_effective_date_key, definition_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default)
select n.ord, was.name,
  exists (
    select from ledger.transition t
    where t.item_no = i.item_no and t.effective_date = i.effective_date and t.event = 12 /* superseded */
      and t.detail ->> 'reason' = 'version') as superseded
from unnest($1::uuid[], $2::date[], $3::bigint[]) with ordinality n (id, effective_date, definition_no, ord)
join ledger.due_item i on i.id = n.id and i.effective_date = n.effective_date
join ledger.definition was on was.definition_no = i.definition_no
join ledger.definition will on will.definition_no = n.definition_no and will.name <> was.name
order by n.ord
