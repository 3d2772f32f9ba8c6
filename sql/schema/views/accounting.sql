create view ledger.accounting as
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
      and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
    group by i.flow_no
  ),
  waiting as (select flow_no, count(*) as pending from ledger.pending group by flow_no),
  parked as (select flow_no, count(*) as reviews from ledger.review group by flow_no),
  open_counts as (
    select i.flow_no,
      count(*) filter (where o.state = 2 /* Claimed */) as handed_out,
      count(*) filter (where o.state = 3 /* Running */) as running
    from ledger.open_item o
    join ledger.due_item i on i.effective_date = o.effective_date and i.item_no = o.item_no
    group by i.flow_no
  )
  select k.tenant, k.name as kind,
    coalesce(sum(c.items), 0)::bigint as items,
    coalesce(sum(w.pending), 0)::bigint as pending,
    coalesce(sum(h.handed_out), 0)::bigint as handed_out,
    coalesce(sum(h.running), 0)::bigint as running,
    coalesce(sum(p.reviews), 0)::bigint as reviews,
    coalesce(sum(c.completed), 0)::bigint as completed,
    coalesce(sum(c.cancelled), 0)::bigint as cancelled,
    coalesce(sum(c.superseded), 0)::bigint as superseded,
    coalesce(sum(c.skipped), 0)::bigint as skipped,
    coalesce(sum(c.written_off), 0)::bigint as written_off
  from ledger.flow f
  join ledger.kind k on k.kind_no = f.kind_no
  left join item_counts c on c.flow_no = f.flow_no
  left join waiting w on w.flow_no = f.flow_no
  left join parked p on p.flow_no = f.flow_no
  left join open_counts h on h.flow_no = f.flow_no
  group by k.tenant, k.name;

comment on view ledger.accounting is
  'The accounting identity of each kind: items = pending + handed out + running + reviews + terminal.';
