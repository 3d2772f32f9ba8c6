-- List places (waiting, parked, handed out) of no item, unlike their item, or where it waits for less or longer than it has to, of some item numbers at a time, and not of known dates unless it is handed out.
-- returns: one or more, each with the number to continue after, null after the last; without a state if none is unfit
-- roles: auditor, reconciler
-- $1 after_item_no bigint
-- $2 limit integer
-- $3 item_nos bigint[]
-- $4 known_dates datemultirange
-- index: due_item_pkey, pending_pkey, review_pkey, transition_item_idx
-- locks: none
with locked_default as (select from ledger.due_item_default),
place as materialized (
  select o.*
  from (
    (select 'waiting' as state, p.item_no, p.effective_date, p.flow_no, p.serial, p.overlap, p.serial_due_at, p.available_at, p.snoozed_until, p.starts,
       p.attempt
     from ledger.pending p
     where p.item_no > $1::bigint and p.item_no <= coalesce((select max(n) from unnest($3::bigint[]) n), 9223372036854775807)
       and ($3::bigint[] is null or p.item_no = any ($3::bigint[]))
     order by p.item_no limit $2::integer)
    union all
    (select 'parked', r.item_no, r.effective_date, r.flow_no, null, null, null, null, null, null, r.attempt
     from ledger.review r
     where r.item_no > $1::bigint and r.item_no <= coalesce((select max(n) from unnest($3::bigint[]) n), 9223372036854775807)
       and ($3::bigint[] is null or r.item_no = any ($3::bigint[]))
     order by r.item_no limit $2::integer)
    union all
    -- A run beyond the end of its claim has no item there, and nothing is greater than null.
    select 'handed_out', c.item_no, c.effective_date, null, null, null, null, null, null, null, c.attempt - 1
    from ledger.open_item c
    where c.item_no > $1::bigint and ($3::bigint[] is null or c.item_no = any ($3::bigint[]))
  ) o
  order by o.item_no
  -- All places of the last item.
  fetch first ($2::integer) rows with ties
),
compared as (
  select p.state, p.item_no, p.effective_date, p.available_at, p.flow_no as place_flow_no, i.id, i.flow_no, i.business_key, i.due_at,
    i.item_no is null as is_unowned,
    i.flow_no <> p.flow_no or p.state = 'waiting' and (
      p.serial is distinct from i.serial or p.serial_due_at <> i.due_at
      -- A redriven item, and a retry that was put off, wait for their key (1) whatever the overlap of their item.
      or p.overlap is distinct from i.overlap and not (p.overlap = 1 and (
        select coalesce(bool_or(t.event = 10 /* redriven */)
          or bool_or(t.event = 8 /* snoozed */ and t.run_no is null) and bool_or(t.event in (6 /* failed */, 7 /* timed_out */)), false)
        from ledger.transition t
        where t.effective_date = p.effective_date and t.item_no = p.item_no
          and t.event in (6 /* failed */, 7 /* timed_out */, 8 /* snoozed */, 10 /* redriven */))))
      or p.attempt > 0 and not exists (
        select from ledger.transition t
        where t.effective_date = p.effective_date and t.item_no = p.item_no and t.attempt >= p.attempt
          and t.event not in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
      )
      -- One that was parked has the attempt at which it was, or the one before if nobody started it.
      or p.state = 'parked' and coalesce((
        select not bool_or(p.attempt between t.attempt - case when t.run_no is null then 1 else 0 end and t.attempt)
        from ledger.transition t
        where t.effective_date = p.effective_date and t.item_no = p.item_no and t.event = 9 /* parked */), false) as is_other,
    -- An item that was never started waits until it is due, or for its key, or for the backoff of its topic's partition, or as long as it was put off.
    p.starts = 0 and (p.serial is null or p.available_at < 'infinity')
      -- One that waited for its key has the time at which another writer, by its clock, woke it.
      and p.available_at > greatest(i.due_at, (select ledger.now())) + case when p.serial is null then interval '1 minute' else interval '1 day' end
      and p.snoozed_until is distinct from p.available_at
      or p.snoozed_until is not null and not exists (
        select from ledger.transition t
        where t.effective_date = p.effective_date and t.item_no = p.item_no and t.event = 8 /* snoozed */
          and t.run_no is null and t.detail -> 'until' = to_jsonb(p.snoozed_until) offset 0)
      or p.available_at < i.due_at and not exists (select from ledger.expedited x where x.item_no = p.item_no) as is_mistimed
  from place p
  -- One look-up for each: a join of some numbers may read all items.
  left join lateral (
    select i.item_no, i.id, i.flow_no, i.business_key, i.due_at, i.serial, i.overlap from ledger.due_item i where i.effective_date = p.effective_date and i.item_no = p.item_no offset 0
  ) i on true
  where p.state = 'handed_out' or not p.effective_date <@ $4::datemultirange
)
select r.reached, c.*
from (select case when count(*) >= $2::integer then max(p.item_no) end as reached from place p) r
left join compared c on c.is_unowned or c.is_other or c.is_mistimed
