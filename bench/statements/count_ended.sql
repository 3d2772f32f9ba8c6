-- Count the items whose run has recorded an ending, from the bits of the runs alone.
-- returns: one
-- roles: owner
-- index: none
-- locks: none
select coalesce(sum(bit_count(r.ended)), 0)::bigint as ended from ledger.run r
