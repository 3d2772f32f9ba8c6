-- For effects outside, each named by an item's id or by key, cycle and date as far as given: count the items, how many are completed or handed out, and return one that is neither.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 tenant text
-- $2 kind text
-- $3 ids uuid[]
-- $4 business_keys text[]
-- $5 cycles text[]
-- $6 effective_dates date[]
-- index: due_item_key_idx, due_item_id_effective_date_key, transition_terminal_idx
-- locks: none
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select * from unnest($3::uuid[], $4::text[], $5::text[], $6::date[]) with ordinality u (id, business_key, cycle, effective_date, place)
),
item as materialized (
  select u.place, i.item_no, i.id, i.business_key, i.effective_date, i.due_at
  from asked u
  join ledger.due_item i on i.id = u.id and i.effective_date = ledger.effective_date_of(u.id)
  where u.id is not null
  union all
  select u.place, i.item_no, i.id, i.business_key, i.effective_date, i.due_at
  from asked u
  join ledger.flow f on f.tenant = $1::text and f.kind = $2::text
  join ledger.due_item i on i.business_key = u.business_key and i.flow_no = f.flow_no
    and i.cycle = coalesce(u.cycle, i.cycle) and i.effective_date = coalesce(u.effective_date, i.effective_date)
  where u.id is null
),
handed_out as materialized (
  select o.item_no from ledger.open_item o
),
stated as materialized (
  select i.*,
    -- Most have ended: what is handed out is read only where an item is nowhere else.
    coalesce(
      (select case t.event
          when 5 /* completed */ then 'completed'
          when 11 /* cancelled */ then 'cancelled'
          when 12 /* superseded */ then 'superseded'
          when 13 /* skipped */ then 'skipped'
          else 'written_off'
        end
      from ledger.transition t
      where t.effective_date = i.effective_date and t.item_no = i.item_no
        and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
      limit 1),
      case
        when exists (select from ledger.pending p where p.item_no = i.item_no) then 'waiting'
        when exists (select from ledger.review r where r.item_no = i.item_no) then 'parked'
        when i.item_no in (select h.item_no from handed_out h) then 'handed_out'
        else 'none'
      end) as state
  from item i
)
select u.place, count(s.item_no)::integer as items, count(*) filter (where s.state = 'completed')::integer as completed,
  count(*) filter (where s.state = 'handed_out')::integer as handed_out,
  coalesce(u.id in (select r.id from ledger.find_retired($3::uuid[]) r (id)), false) as is_retired,
  o.state, o.id, o.business_key, o.effective_date, o.due_at
from asked u
left join stated s on s.place = u.place
left join lateral (
  select a.* from stated a
  where a.place = u.place and a.state not in ('completed', 'handed_out')
  order by a.effective_date, a.item_no
  limit 1
) o on true
group by u.place, u.id, o.state, o.id, o.business_key, o.effective_date, o.due_at
order by u.place
