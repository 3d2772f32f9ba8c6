-- Read of which time the past load is known, and the transaction that noted it.
-- returns: zero or one
-- roles: auditor
-- index: none
-- locks: none
select c.as_of, c.counted_from, c.xmin::text::bigint as version from ledger.past_load_count c
