-- Take due items from `pending` (Scheduled, RetryableFailure to Claimed once their claims are recorded in the same transaction).
-- returns: zero or more
-- $1 flow_nos integer[]
-- $2 quotas integer[]
-- index: pending_available_idx, due_item_pkey
-- locks: pending rows (for update, skip locked)
with taken as materialized (
  select l.tid
  from unnest($1::integer[], $2::integer[]) q (flow_no, quota)
  join ledger.flow f on f.flow_no = q.flow_no and f.paused_at is null
  cross join lateral (
    select p.ctid as tid
    from ledger.pending p
    where p.flow_no = q.flow_no and p.available_at <= ledger.now()
      and p.state in (1 /* Scheduled */, 4 /* RetryableFailure */)
    order by p.available_at
    limit q.quota
    for update skip locked
  ) l
),
removed as (
  delete from ledger.pending p using taken t where p.ctid = t.tid
  returning p.item_no, p.effective_date, p.attempt, p.starts, p.batch_max
)
select i.item_no, i.id, i.effective_date, i.flow_no, i.business_key, i.partition_key, i.cycle, i.due_at,
  i.payload::text as payload, i.traceparent, r.attempt, r.starts, r.batch_max
from removed r
join ledger.due_item i on i.effective_date = r.effective_date and i.item_no = r.item_no
