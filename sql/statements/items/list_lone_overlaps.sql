-- List those of these items that were skipped or cancelled for overlap while no other item of their key was open.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 effective_dates date[]
-- $2 item_nos bigint[]
-- index: due_item_pkey, due_item_key_idx, transition_terminal_idx
-- locks: none
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select i.item_no, i.effective_date, i.business_key, i.serial, i.due_at, i.overlap, t.event, t.at
  from unnest($1::date[], $2::bigint[]) u (effective_date, item_no)
  join ledger.due_item i on i.effective_date = u.effective_date and i.item_no = u.item_no
  join ledger.transition t on t.effective_date = i.effective_date and t.item_no = i.item_no
    and t.event in (11 /* cancelled */, 13 /* skipped */)
  -- Versions of a definition may name different business keys and have one key.
  where i.definition_no is null or not exists (
    select from ledger.definition d join ledger.definition o on o.tenant = d.tenant and o.name = d.name
    where d.definition_no = i.definition_no
      and (o.document ->> 'business_key') is distinct from (d.document ->> 'business_key'))
),
-- First those of near dates: a key may have many items.
asked_key as materialized (
  select a.business_key, a.serial, min(a.effective_date) - 60 as first_date, max(a.effective_date) + 60 as last_date,
    min(least(a.at, a.due_at)) as first_at, max(a.at) as last_at
  from asked a group by a.business_key, a.serial
),
near as materialized (
  select k.serial, o.item_no, case when x.item_no is null then o.due_at else '-infinity' end as from_at, o.due_at,
    coalesce(t.at, 'infinity') as until_at, t.event is not distinct from 13 /* skipped */ as is_skipped
  from asked_key k
  join ledger.due_item o on o.business_key = k.business_key and o.serial = k.serial
    and o.effective_date between k.first_date and k.last_date
  left join ledger.transition t on t.effective_date = o.effective_date and t.item_no = o.item_no
    and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
  left join ledger.expedited x on x.item_no = o.item_no
),
-- Of the items that were available before each instant, when the last one ended.
beside as materialized (
  select w.item_no, w.at, w.until_at
  from (
    select s.item_no, s.at, s.is_asked, max(s.until_at) over (partition by s.serial order by s.at, s.is_asked) as until_at
    from (
      select o.serial, o.item_no, o.from_at as at, false as is_asked, o.until_at from near o where not o.is_skipped
      union all
      select a.serial, a.item_no, a.at, true, null from asked a where a.event = 13 /* skipped */
    ) s
  ) w
  where w.is_asked
),
alone_nearby as materialized (
  select a.*
  from asked a join beside b on b.item_no = a.item_no
  -- An end counts from when its statement began, and may commit up to a minute later.
  where (b.until_at is null or b.until_at < b.at - interval '1 minute')
    -- A newer one that waited may have been skipped in its turn.
    and not (a.overlap = 4 and exists (
      select from near o
      where o.serial = a.serial and o.due_at >= a.due_at and o.item_no <> a.item_no
        and o.is_skipped and o.from_at <= a.at and o.until_at > a.at))
  union all
  -- The newer item asked for the end of the older one, and may have ended before that came, or been skipped after it for a newer one.
  select a.* from asked a
  where a.event = 11 /* cancelled */ and not exists (
    select from near o
    where o.serial = a.serial and o.item_no <> a.item_no and o.due_at >= a.due_at and o.from_at <= a.at)
),
-- Then, of the keys of what is left, those of all other dates that were open at the time: few, such as one of a quarter ago.
far as materialized (
  select k.serial, case when x.item_no is null then o.due_at else '-infinity' end as from_at, o.due_at,
    coalesce(t.at, 'infinity') as until_at, t.event is not distinct from 13 /* skipped */ as is_skipped
  from asked_key k
  join ledger.due_item o on o.business_key = k.business_key and o.serial = k.serial
    and (o.effective_date < k.first_date or o.effective_date > k.last_date)
  left join ledger.transition t on t.effective_date = o.effective_date and t.item_no = o.item_no
    and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
  left join ledger.expedited x on x.item_no = o.item_no
  where exists (select from alone_nearby a where a.serial = k.serial)
    and (t.at is null or t.at >= k.first_at) and (x.item_no is not null or o.due_at <= k.last_at)
)
select a.item_no
from alone_nearby a
where not exists (
  select from far o
  where o.serial = a.serial and o.from_at <= a.at
    and case
      when a.event = 11 /* cancelled */ then o.due_at >= a.due_at
      when o.is_skipped then a.overlap = 4 and o.due_at >= a.due_at and o.until_at > a.at
      else o.until_at >= a.at
    end)
