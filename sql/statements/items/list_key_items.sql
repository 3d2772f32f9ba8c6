-- List the items of a business key, the latest or the earliest effective date first, after a place; nothing if the key has more than are read.
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
-- $14 read_max integer
-- $15 limit integer
-- $16 attempt_min integer
-- $17 ended_by text
-- $18 oldest_first boolean
-- index: due_item_key_idx, transition_terminal_idx
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
-- Counted in the index alone: of a key that has more, no item is read.
crowd as materialized (
  select count(*) > $14::integer as is_crowded
  from (
    (select from ledger.due_item i
     where i.business_key = $5::text and i.flow_no = any (array(select s.flow_no from scope s))
       and not ($1::text[] is null and $2::text is null and $3::text is null and $4::text is null)
     limit $14::integer + 1)
    union all
    -- Of all flows, each is not looked for.
    (select from ledger.due_item i
     where i.business_key = $5::text and $1::text[] is null and $2::text is null and $3::text is null and $4::text is null
     limit $14::integer + 1)
  ) i
),
keyed as materialized (
  (select i.effective_date, i.item_no, i.due_at, i.labels, i.definition_no
   from ledger.due_item i
   where i.business_key = $5::text and i.flow_no = any (array(select s.flow_no from scope s))
     and not ($1::text[] is null and $2::text is null and $3::text is null and $4::text is null)
     and not (select c.is_crowded from crowd c))
  union all
  (select i.effective_date, i.item_no, i.due_at, i.labels, i.definition_no
   from ledger.due_item i
   where i.business_key = $5::text and $1::text[] is null and $2::text is null and $3::text is null and $4::text is null
     and not (select c.is_crowded from crowd c))
),
found as materialized (
  select i.effective_date, i.item_no
  from keyed i
  where case when $18::boolean
      then (i.effective_date, i.item_no) > (coalesce($12::date, '-infinity'), coalesce($13::bigint, 0))
      else (i.effective_date, i.item_no) < (coalesce($12::date, 'infinity'), coalesce($13::bigint, 9223372036854775807)) end
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
  order by case when $18::boolean then row(i.effective_date, i.item_no) end, i.effective_date desc, i.item_no desc
  limit $15::integer
)
select f.effective_date, f.item_no, c.is_crowded
from crowd c
left join found f on true
order by case when $18::boolean then row(f.effective_date, f.item_no) end, f.effective_date desc, f.item_no desc
