-- Read whether items of a kind wait for their first attempt, and whether claims are open.
-- returns: one
-- roles: owner
-- $1 kind text
-- index: claim_deadline_idx, pending_available_idx
-- locks: none
select
  exists (
    select from ledger.kind k
    cross join lateral (select f.flow_no from ledger.flow f where f.kind_no = k.kind_no offset 0) f
    cross join lateral (
      select from ledger.pending p where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is null limit 1) p
    where k.name = $1::text) as has_pending,
  exists (select from ledger.claim c where c.closed_at is null) as has_claims
