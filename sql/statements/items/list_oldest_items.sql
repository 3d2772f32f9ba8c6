-- List items of all tenants, the earliest effective date first, after a place; up to a limit of items is examined.
-- returns: one or more, without a number if nothing was found
-- roles: auditor, operator
-- $1 tenants text[]
-- $2 tenant text
-- $3 kind text
-- $4 lane text
-- $5 business_key text
-- $6 end_state text
-- $7 label text
-- $8 label_value text
-- $9 due_from timestamptz
-- $10 due_before timestamptz
-- $11 definition_nos bigint[]
-- $12 after_date date
-- $13 after_no bigint
-- $14 examined_max integer
-- $15 limit integer
-- $16 attempt_min integer
-- $17 ended_by text
-- index: due_item_pkey, flow_pkey, transition_terminal_idx
-- locks: none
with locked_default as (select from ledger.due_item_default),
ending as materialized (
  select array_agg(e.event) as events, (select a.actor_no from ledger.actor a where a.name = $17::text) as actor_no
  from ledger.transition_event e join ledger.state s on s.state = e.after_state where s.name = $6::text
),
found as materialized (
  select i.effective_date, i.item_no
  from (
    select i.effective_date, i.item_no, i.flow_no, i.business_key, i.due_at, i.labels, i.definition_no
    from ledger.due_item i
    where i.effective_date >= coalesce($12::date, '-infinity')
      and (i.effective_date, i.item_no) > (coalesce($12::date, '-infinity'), coalesce($13::bigint, 0))
    order by i.effective_date, i.item_no
    limit $14::integer
  ) i
  -- `offset 0`: the flow of an item is found by its key, in the order of the items
  cross join lateral (select f.tenant, f.kind, f.lane from ledger.flow f where f.flow_no = i.flow_no offset 0) f
  where ($1::text[] is null or f.tenant = any ($1::text[]))
    and ($2::text is null or f.tenant = $2::text)
    and ($3::text is null or f.kind = $3::text)
    and ($4::text is null or f.lane = $4::text)
    and ($5::text is null or i.business_key = $5::text)
    and ($7::text is null or i.labels ->> $7::text = $8::text)
    and ($11::bigint[] is null or i.definition_no = any ($11::bigint[]))
    and ($9::timestamptz is null or i.due_at >= $9::timestamptz)
    and ($10::timestamptz is null or i.due_at < $10::timestamptz)
    and ($6::text is null or exists (
      select from ledger.transition t
      where t.item_no = i.item_no and t.effective_date = i.effective_date and t.event = any ((select e.events from ending e)::smallint[])
        and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
        and ($16::integer is null or t.attempt >= $16::integer)
        and ($17::text is null or t.actor_no = (select e.actor_no from ending e))))
  order by i.effective_date, i.item_no
  limit $15::integer
)
select f.effective_date, f.item_no, r.effective_date as reached_date, r.item_no as reached_no
from (values (true)) one (row)
left join (
  select i.effective_date, i.item_no
  from ledger.due_item i
  where i.effective_date >= coalesce($12::date, '-infinity')
    and (i.effective_date, i.item_no) > (coalesce($12::date, '-infinity'), coalesce($13::bigint, 0))
    and (select count(*) from found) < $15::integer
  order by i.effective_date, i.item_no
  offset $14::integer - 1 limit 1
) r on true
left join found f on true
order by f.effective_date, f.item_no
