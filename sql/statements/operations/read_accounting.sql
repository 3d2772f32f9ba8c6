-- Read the accounting identity of a range of effective dates by tenant and kind, in one snapshot.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 tenant text
-- $2 from_date date
-- $3 to_date date
-- index: none
-- locks: none
select a.* from ledger.accounting($2::date, $3::date) a
where $1::text is null or a.tenant = $1::text
order by a.tenant, a.kind
