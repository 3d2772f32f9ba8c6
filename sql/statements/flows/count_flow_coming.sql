-- Count the items of a flow that fall due from now until an instant, up to a limit and one more.
-- returns: one
-- roles: auditor
-- $1 tenant text
-- $2 kind text
-- $3 lane text
-- $4 until timestamptz
-- $5 count_max integer
-- index: pending_available_idx, pending_retry_idx, pending_serial_idx, flow_tenant_kind_lane_key
-- locks: none
select count(*)::integer as items
from (
  select from ledger.flow f
  cross join lateral (
    (select from ledger.pending p
     where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is null
       and p.available_at > ledger.now() and p.available_at < $4::timestamptz limit $5::integer + 1)
    union all
    (select from ledger.pending p
     where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
       and p.available_at > ledger.now() and p.available_at < $4::timestamptz limit $5::integer + 1)
    union all
    (select from ledger.pending p
     where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null
       and p.available_at > ledger.now() and p.available_at < $4::timestamptz limit $5::integer + 1)
    union all
    (select from ledger.pending p
     where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
       and p.available_at > ledger.now() and p.available_at < $4::timestamptz limit $5::integer + 1)
  ) p
  where f.tenant = $1::text and f.kind = $2::text and f.lane = $3::text
  limit $5::integer + 1
) p
