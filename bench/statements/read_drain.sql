-- Read whether items of a kind are pending, and whether anything was claimed since an instant.
-- returns: one
-- roles: owner
-- $1 kind text
-- $2 since timestamptz
-- index: none
-- locks: none
select
  exists (
    select from ledger.flow f
    join ledger.kind k on k.kind_no = f.kind_no
    cross join lateral (select from ledger.pending p where p.flow_no = f.flow_no limit 1) p
    where k.name = $1::text) as has_pending,
  exists (select from ledger.claim c where c.claimed_at >= $2::timestamptz) as has_claims
