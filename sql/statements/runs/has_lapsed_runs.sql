-- Return whether a run is past its lease.
-- returns: one
-- roles: reconciler, upkeep
-- index: run_lease_idx
-- locks: none
select exists (
  select from ledger.run r where r.closed_at is null and r.lease_until < ledger.machine_now()) as has_lapsed
