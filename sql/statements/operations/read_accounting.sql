-- Read the accounting identity by tenant and kind, in one snapshot.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 tenant text
-- index: none
-- locks: none
select a.* from ledger.accounting a
where $1::text is null or a.tenant = $1::text
order by a.tenant, a.kind
