-- Start definitions' chains with these items: the transaction that ends one emits the next.
-- returns: zero
-- roles: materialiser
-- $1 ids uuid[]
-- $2 definition_nos bigint[]
-- $3 delay_seconds double precision[]
-- index: due_item_id_effective_date_key, transition_terminal_idx
-- locks: following rows (for update), where an older version's item was taken over
with locked_default as (select from ledger.due_item_default)
insert into ledger.following (item_no, effective_date, definition_no, delay_seconds)
select i.item_no, i.effective_date, u.definition_no, u.delay_seconds
from unnest($1::uuid[], $2::bigint[], $3::double precision[]) u (id, definition_no, delay_seconds)
join ledger.due_item i on i.id = u.id and i.effective_date = ledger.effective_date_of(u.id) and i.definition_no = u.definition_no
where not exists (
  select from ledger.transition t
  where t.item_no = i.item_no and t.effective_date = i.effective_date
    and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */))
on conflict (item_no) do update set definition_no = excluded.definition_no, delay_seconds = excluded.delay_seconds
