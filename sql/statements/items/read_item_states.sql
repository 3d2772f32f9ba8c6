-- Read the states of items, from when those that wait may be handed out, and whether each waits for its key; a null state for one that does not exist.
-- returns: exactly one per input
-- roles: operator
-- $1 ids uuid[]
-- index: due_item_id_effective_date_key, pending_pkey, review_pkey, transition_terminal_idx
-- locks: none
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select a.id, a.ord, i.item_no, p.available_at,
    coalesce(t.after_state, p.state, case when r.item_no is not null then 5 /* ManualReview */ end) as state
  from unnest($1::uuid[]) with ordinality a (id, ord)
  left join ledger.due_item i on i.id = a.id and i.effective_date = ledger.effective_date_of(a.id)
  left join ledger.pending p on p.item_no = i.item_no
  left join ledger.review r on r.item_no = i.item_no
  left join lateral (
    select e.after_state
    from ledger.transition t join ledger.transition_event e on e.event = t.event
    where t.item_no = i.item_no and t.effective_date = i.effective_date
      and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
  ) t on true
),
-- Items in none of these are handed out; what is handed out is read only then, once.
handed_out as materialized (
  select o.item_no, o.state from ledger.open_item o
  where exists (select from asked a where a.item_no is not null and a.state is null)
    and o.item_no = any (array(select a.item_no from asked a where a.state is null))
)
select a.id, coalesce(a.state, o.state)::smallint as state, nullif(a.available_at, 'infinity') as available_at,
  coalesce(a.available_at = 'infinity', false) as waits_for_key
from asked a
left join handed_out o on o.item_no = a.item_no
order by a.ord
