-- All rows of an item have its effective date, so the identity holds of each range of dates by itself.
create function ledger.accounting(from_date date default '-infinity', to_date date default 'infinity') returns table (
  tenant text, kind text, items bigint, pending bigint, handed_out bigint, running bigint, reviews bigint, completed bigint,
  cancelled bigint, superseded bigint, skipped bigint, written_off bigint
)
  language sql stable set enable_hashjoin = on set enable_nestloop = off  -- of all items, whatever statistics say
as $$
  with locked_default as (select from ledger.due_item_default),
  item_counts as (
    select i.flow_no,
      count(*) as items,
      count(*) filter (where t.event = 5 /* completed */) as completed,
      count(*) filter (where t.event = 11 /* cancelled */) as cancelled,
      count(*) filter (where t.event = 12 /* superseded */) as superseded,
      count(*) filter (where t.event = 13 /* skipped */) as skipped,
      count(*) filter (where t.event = 14 /* written_off */) as written_off
    from ledger.due_item i
    left join ledger.transition t
      on t.effective_date = i.effective_date and t.item_no = i.item_no
      and t.effective_date >= from_date and t.effective_date < to_date
      and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
    where i.effective_date >= from_date and i.effective_date < to_date
    group by i.flow_no
  ),
  waiting as (
    select p.flow_no, count(*) as pending from ledger.pending p
    where p.effective_date >= from_date and p.effective_date < to_date
    group by p.flow_no
  ),
  parked as (
    select r.flow_no, count(*) as reviews from ledger.review r
    where r.effective_date >= from_date and r.effective_date < to_date
    group by r.flow_no
  ),
  open_counts as (
    select i.flow_no,
      count(*) filter (where o.state = 2 /* Claimed */) as handed_out,
      count(*) filter (where o.state = 3 /* Running */) as running
    from ledger.open_item o
    join ledger.due_item i on i.effective_date = o.effective_date and i.item_no = o.item_no
    where o.effective_date >= from_date and o.effective_date < to_date
      and i.effective_date >= from_date and i.effective_date < to_date
    group by i.flow_no
  )
  select f.tenant, f.kind,
    coalesce(sum(c.items), 0)::bigint,
    coalesce(sum(w.pending), 0)::bigint,
    coalesce(sum(h.handed_out), 0)::bigint,
    coalesce(sum(h.running), 0)::bigint,
    coalesce(sum(p.reviews), 0)::bigint,
    coalesce(sum(c.completed), 0)::bigint,
    coalesce(sum(c.cancelled), 0)::bigint,
    coalesce(sum(c.superseded), 0)::bigint,
    coalesce(sum(c.skipped), 0)::bigint,
    coalesce(sum(c.written_off), 0)::bigint
  from ledger.flow f
  left join item_counts c on c.flow_no = f.flow_no
  left join waiting w on w.flow_no = f.flow_no
  left join parked p on p.flow_no = f.flow_no
  left join open_counts h on h.flow_no = f.flow_no
  group by f.tenant, f.kind
$$;

comment on function ledger.accounting is
  'The accounting identity of each kind, of a half-open range of effective dates: items = pending + handed out + running + '
  'reviews + terminal.';
