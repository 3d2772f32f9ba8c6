-- List items that runs ended, as all of a closed run, and of which no transition says how, or more than one; most of the runs were started at these times.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 run_nos bigint[]
-- $2 first_started_at timestamptz
-- $3 last_started_at timestamptz
-- $4 limit integer
-- index: claim_pkey, due_item_pkey, transition_terminal_idx, transition_item_idx
-- locks: none
with locked_default as (select from ledger.due_item_default),
held as materialized (
  select r.run_no, r.worker_no, coalesce(r.closed_at, r.started_at) as at, u.item_no, u.effective_date
  from ledger.list_runs($1::bigint[], $2::timestamptz, $3::timestamptz) r
  join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
  cross join lateral unnest(c.item_no[r.from_position:r.to_position], c.effective_date[r.from_position:r.to_position])
    with ordinality u (item_no, effective_date, place)
  where r.closed_at is not null or get_bit(r.ended, u.place::integer - 1) = 1
)
select uuid_send(i.id) as id, i.flow_no, i.business_key, i.effective_date, i.due_at, null::smallint as event, h.run_no,
  h.at, case when t.endings = 0 then 'unrecorded' else 'repeated' end as fault, a.name as actor
from held h
-- One look-up for each: a join of some numbers may read all items.
cross join lateral (
  select i.id, i.flow_no, i.business_key, i.effective_date, i.item_no, i.due_at
  from ledger.due_item i where i.effective_date = h.effective_date and i.item_no = h.item_no offset 0
) i
-- Each part of the journal has an index of its own.
cross join lateral (
  select (
    select count(*) from ledger.transition t
    where t.effective_date = i.effective_date and t.item_no = i.item_no and t.run_no = h.run_no
      and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
  ) + (
    select count(*) from ledger.transition t
    where t.effective_date = i.effective_date and t.item_no = i.item_no and t.run_no = h.run_no
      and t.event not in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
  ) as endings
) t
left join ledger.actor a on a.actor_no = h.worker_no
where t.endings <> 1
order by i.effective_date, i.item_no, h.run_no
limit $4::integer
