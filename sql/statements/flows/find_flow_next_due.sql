-- Find when the next item of a flow is available that is not due yet.
-- returns: zero or one
-- roles: auditor
-- $1 tenant text
-- $2 kind text
-- $3 lane text
-- index: flow_tenant_kind_lane_key, pending_available_idx, pending_serial_idx
-- locks: none
select least(
  (select p.available_at from ledger.pending p
   where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at > ledger.now()
   order by p.available_at limit 1),
  (select p.available_at from ledger.pending p
   where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null
     and p.available_at > ledger.now() and p.available_at < 'infinity'
   order by p.available_at limit 1)) as available_at
from ledger.flow f
where f.tenant = $1::text and f.kind = $2::text and f.lane = $3::text
