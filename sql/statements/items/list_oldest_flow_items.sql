-- List items of a caller's flows, the earliest effective date first, after a place; up to a limit of items of these flows is examined.
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
-- index: due_item_flow_idx, transition_terminal_idx
-- locks: none
with locked_default as (select from ledger.due_item_default),
ending as materialized (
  select array_agg(e.event) as events, (select a.actor_no from ledger.actor a where a.name = $17::text) as actor_no
  from ledger.transition_event e join ledger.state s on s.state = e.after_state where s.name = $6::text
),
scope as materialized (
  select f.flow_no
  from ledger.flow f
  where ($1::text[] is null or f.tenant = any ($1::text[])) and ($2::text is null or f.tenant = $2::text)
    and ($3::text is null or f.kind = $3::text) and ($4::text is null or f.lane = $4::text)
),
-- The first item of each flow: the page is of the flows whose first items are first, one for each of its rows at most.
head as materialized (
  select h.*, row_number() over (order by h.effective_date, h.item_no) as n
  from (
    select s.flow_no, i.effective_date, i.item_no
    from scope s
    cross join lateral (
      select i.effective_date, i.item_no
      from ledger.due_item i
      where i.flow_no = s.flow_no and i.effective_date >= coalesce($12::date, '-infinity')
        and (i.effective_date, i.item_no) > (coalesce($12::date, '-infinity'), coalesce($13::bigint, 0))
      order by i.effective_date, i.item_no limit 1
    ) i
    order by i.effective_date, i.item_no limit $15::integer + 1
  ) h
),
-- Where each item is listed, none beyond the page is read.
flow_max as materialized (
  select case
    when $5::text is null and $6::text is null and $7::text is null and $9::timestamptz is null
      and $10::timestamptz is null and $11::bigint[] is null then $15::integer
    else greatest($15::integer, $14::integer / greatest(count(*), 1))
  end::integer as items
  from head
),
examined as materialized (
  select i.*
  from head h
  cross join lateral (
    select i.*, row_number() over (order by i.effective_date, i.item_no) as n
    from (
      select i.effective_date, i.item_no, i.business_key, i.due_at, i.labels, i.definition_no
      from ledger.due_item i
      where i.flow_no = h.flow_no and i.effective_date >= coalesce($12::date, '-infinity')
        and (i.effective_date, i.item_no) > (coalesce($12::date, '-infinity'), coalesce($13::bigint, 0))
      order by i.effective_date, i.item_no limit (select m.items from flow_max m)
    ) i
  ) i
  where h.n <= $15::integer
),
-- Down to here all is read: to the last item of a flow that may have more, and before the first one of a flow not read.
bound as materialized (
  select b.effective_date, b.item_no
  from (
    select e.effective_date, e.item_no from examined e where e.n = (select m.items from flow_max m)
    union all
    select h.effective_date, h.item_no - 1 from head h where h.n > $15::integer
  ) b
  order by b.effective_date, b.item_no limit 1
),
found as materialized (
  select i.effective_date, i.item_no
  from examined i
  where (not exists (select from bound)
      or (i.effective_date, i.item_no) <= ((select b.effective_date from bound b), (select b.item_no from bound b)))
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
left join bound r on (select count(*) from found) < $15::integer
left join found f on true
order by f.effective_date, f.item_no
