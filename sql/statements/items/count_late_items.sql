-- Count the items of flows that wait for a claim and are past their SLA, among a bounded number of those available first.
-- returns: one
-- roles: auditor
-- $1 flow_nos integer[]
-- $2 read_max integer
-- index: pending_available_idx, pending_retry_idx, pending_serial_idx, due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
scope as materialized (
  select f.flow_no, ledger.now() as now, make_interval(secs => k.grace_seconds) as grace
  from unnest($1::integer[]) n (flow_no)
  join ledger.flow f on f.flow_no = n.flow_no
  join ledger.kind k on k.kind_no = f.kind_no
)
select count(*)::integer as items
from (
  select p.item_no, p.effective_date, s.now, s.grace
  from scope s
  cross join lateral (
    (select p.item_no, p.effective_date from ledger.pending p
     where p.flow_no = s.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at < s.now
     order by p.available_at limit $2::integer)
    union all
    (select p.item_no, p.effective_date from ledger.pending p
     where p.flow_no = s.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null and p.available_at < s.now
     order by p.available_at limit $2::integer)
    union all
    (select p.item_no, p.effective_date from ledger.pending p
     where p.flow_no = s.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null and p.available_at < s.now
     order by p.available_at limit $2::integer)
    union all
    (select p.item_no, p.effective_date from ledger.pending p
     where p.flow_no = s.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null and p.available_at < s.now
     order by p.available_at limit $2::integer)
  ) p
  limit $2::integer
) p
cross join lateral (  -- `offset 0`: each is found by its key, however few rows the plan was made for
  select i.due_at, i.complete_by from ledger.due_item i
  where i.effective_date = p.effective_date and i.item_no = p.item_no offset 0
) i
where p.now > coalesce(i.complete_by, i.due_at + p.grace)
