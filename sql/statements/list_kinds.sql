-- List kinds with their policies.
-- returns: zero or more
-- $1 tenant text
-- index: none
-- locks: none
select k.* from ledger.kind k where $1::text is null or k.tenant = $1::text order by k.tenant, k.name
