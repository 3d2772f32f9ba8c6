-- Count the items that wait in flows of a scope and fell due in a span; of those available since it began so many are read, and one more.
-- returns: one
-- roles: auditor
-- $1 tenant text
-- $2 kind text
-- $3 lane text
-- $4 since timestamptz
-- $5 until timestamptz
-- $6 read_max integer
-- index: pending_available_idx, pending_retry_idx, pending_serial_idx, flow_tenant_kind_lane_key, due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
available as materialized (
  select p.item_no, p.effective_date
  from ledger.flow f
  cross join lateral (
    (select p.item_no, p.effective_date from ledger.pending p
     where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is null
       and p.available_at >= $4::timestamptz and p.available_at < $5::timestamptz
     order by p.available_at limit $6::integer + 1)
    union all
    (select p.item_no, p.effective_date from ledger.pending p
     where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
       and p.available_at >= $4::timestamptz and p.available_at < $5::timestamptz
     order by p.available_at limit $6::integer + 1)
    union all
    (select p.item_no, p.effective_date from ledger.pending p
     where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null
       and p.available_at >= $4::timestamptz and p.available_at < $5::timestamptz
     order by p.available_at limit $6::integer + 1)
    union all
    (select p.item_no, p.effective_date from ledger.pending p
     where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
       and p.available_at >= $4::timestamptz and p.available_at < $5::timestamptz
     order by p.available_at limit $6::integer + 1)
  ) p
  where f.tenant = $1::text and ($2::text is null or f.kind = $2::text) and ($3::text is null or f.lane = $3::text)
  limit $6::integer + 1
)
select (count(*) filter (where i.due_at >= $4::timestamptz and i.due_at < $5::timestamptz))::integer as items,
  count(*) > $6::integer as is_capped
from available a
cross join lateral (  -- `offset 0`: each is found by its key, however few rows the plan was made for
  select i.due_at from ledger.due_item i where i.effective_date = a.effective_date and i.item_no = a.item_no offset 0
) i
