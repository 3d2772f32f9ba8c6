-- Count the open items of each kind by state, and those past their SLA, with the time of the counts and the oldest due time.
-- returns: zero or more
-- roles: auditor
-- $1 before timestamptz
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default),
open_items as (
  select p.item_no, p.effective_date, p.state, p.available_at <= ledger.now() as available, false as published
  from ledger.pending p
  union all
  select c.item_no[n], c.effective_date[n], 2::smallint /* Claimed */, true, c.published_at is not null
  from ledger.claim c
  cross join lateral generate_series(c.started + 1, c.size) n
  where c.closed_at is null
  union all
  select o.item_no, o.effective_date, o.state, true, true
  from ledger.open_item o
  where o.state = 3 /* Running */
  union all
  select r.item_no, r.effective_date, 5::smallint /* ManualReview */, true, false
  from ledger.review r
)
select k.tenant, k.name as kind, ledger.now() as now,
  count(*) filter (where o.state in (1 /* Scheduled */, 4 /* RetryableFailure */) and not o.available) as not_due,
  count(*) filter (where o.state in (1 /* Scheduled */, 4 /* RetryableFailure */) and o.available) as due,
  min(i.due_at) filter (where o.state in (1 /* Scheduled */, 4 /* RetryableFailure */) and o.available) as oldest_due_at,
  count(*) filter (where o.state = 2 /* Claimed */) as handed_out,
  count(*) filter (where o.state = 2 /* Claimed */ and o.published) as in_kafka,
  count(*) filter (where o.state = 3 /* Running */) as running,
  count(*) filter (where o.state = 5 /* ManualReview */) as reviews,
  count(*) filter (
    where ledger.now() > coalesce(i.complete_by, i.due_at + make_interval(secs => k.grace_seconds))) as past_sla,
  count(*) filter (where i.due_at < $1::timestamptz) as open_before
from open_items o
join ledger.due_item i on i.effective_date = o.effective_date and i.item_no = o.item_no
join ledger.flow f on f.flow_no = i.flow_no
join ledger.kind k on k.kind_no = f.kind_no
group by k.tenant, k.name
order by k.tenant, k.name
