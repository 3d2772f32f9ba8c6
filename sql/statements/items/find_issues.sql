-- Find which of these ids the ledger has, or had before their partition was dropped, their instants, and why the skipped or superseded ones ended.
-- returns: zero or more
-- roles: operator
-- $1 ids uuid[]
-- index: due_item_id_effective_date_key, transition_terminal_idx
-- locks: none
with locked_default as (select from ledger.due_item_default)
select uuid_send(u.id) as id, i.definition_no, i.zone, i.due_at - make_interval(secs => coalesce(i.smear_seconds, 0)) as occurs_at,
  t.event, t.detail ->> 'reason' as reason, coalesce(t.detail ->> 'tzdata', i.tzdata) as tzdata
from unnest($1::uuid[]) u (id)
left join ledger.due_item i on i.id = u.id and i.effective_date = ledger.effective_date_of(u.id)
left join ledger.transition t on t.item_no = i.item_no and t.effective_date = i.effective_date
  and t.event in (12 /* superseded */, 13 /* skipped */)
where i.item_no is not null or u.id in (select r.id from ledger.find_retired($1::uuid[]) r (id))
