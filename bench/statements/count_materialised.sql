-- Count the definitions that are materialised up to an instant or further. Reads all of them: for benchmarks alone.
-- returns: one
-- roles: owner
-- $1 until timestamptz
-- index: none
-- locks: none
select count(*)::bigint from ledger.materialised m where m.materialised_until >= $1::timestamptz
