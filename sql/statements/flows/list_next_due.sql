-- List of flows the next item that is not due yet, the first due first.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 limit integer
-- index: pending_available_idx, pending_serial_idx
-- locks: none
select f.tenant, f.kind, f.lane, n.available_at, f.paused_at is not null as is_paused
from ledger.flow f
cross join lateral (
  select least(
    (select p.available_at from ledger.pending p
     where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at > ledger.now()
     order by p.available_at limit 1),
    (select p.available_at from ledger.pending p
     where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null
       and p.available_at > ledger.now() and p.available_at < 'infinity'
     order by p.available_at limit 1)) as available_at
) n
where n.available_at is not null and ($1::text[] is null or f.tenant = any ($1::text[]))
order by n.available_at, f.tenant, f.kind, f.lane
limit $2::integer
