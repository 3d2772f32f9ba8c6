-- Read of which time the past load is known.
-- returns: zero or one
-- roles: auditor
-- index: none
-- locks: none
select c.as_of, c.counted_from from ledger.past_load_count c
