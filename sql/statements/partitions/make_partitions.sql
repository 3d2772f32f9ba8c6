-- Make the monthly partitions that are missing, from one month before now to `ahead` after it.
-- returns: one
-- $1 ahead interval
-- index: none
-- locks: partitioned parents (share update exclusive) where a month is missing
select ledger.make_partitions($1::interval) as made
