-- List places (waiting, parked, handed out) of no item, unlike their item, or where it waits for less or longer than it has to, up to a limit.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 limit integer
-- $2 item_nos bigint[]
-- index: due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
place as (
  select 'waiting' as state, p.item_no, p.effective_date, p.flow_no, p.serial, p.overlap, p.serial_due_at, p.available_at, p.starts,
    p.attempt
  from ledger.pending p
  union all
  select 'parked', r.item_no, r.effective_date, r.flow_no, null, null, null, null, null, r.attempt from ledger.review r
  union all
  select 'handed_out', o.item_no, o.effective_date, null, null, null, null, null, null, null from ledger.open_item o
  -- A run beyond the end of its claim has no item there.
  where o.item_no is not null
),
compared as (
  select p.state, p.item_no, p.effective_date, p.available_at, p.flow_no as place_flow_no, i.id, i.flow_no, i.business_key, i.due_at,
    i.item_no is null as is_unowned,
    i.flow_no <> p.flow_no or p.state = 'waiting' and (
      p.serial is distinct from i.serial or p.overlap is distinct from i.overlap or p.serial_due_at <> i.due_at)
      or p.attempt > 0 and not exists (
        select from ledger.transition t
        where t.effective_date = p.effective_date and t.item_no = p.item_no and t.attempt >= p.attempt
          and t.event not in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
      ) as is_other,
    -- An item that was never started waits until it is due, or for its key, or for the backoff of its topic's partition.
    p.starts = 0 and (p.serial is null or p.available_at < 'infinity')
      -- One that waited for its key has the time at which another writer, by its clock, woke it.
      and p.available_at > greatest(i.due_at, ledger.now()) + case when p.serial is null then interval '1 minute' else interval '1 day' end
        or p.available_at < i.due_at and not exists (select from ledger.expedited x where x.item_no = p.item_no) as is_mistimed
  from place p
  left join ledger.due_item i on i.item_no = p.item_no and i.effective_date = p.effective_date
  where $2::bigint[] is null or p.item_no = any ($2::bigint[])
)
select c.*
from compared c
where c.is_unowned or c.is_other or c.is_mistimed
limit $1::integer
