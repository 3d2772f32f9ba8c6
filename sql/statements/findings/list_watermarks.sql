-- List how far each kind is complete.
-- returns: zero or more
-- roles: auditor
-- $1 tenant text
-- index: none
-- locks: none
select tenant, kind, complete_before, blocked_by, as_of
from ledger.watermark
where $1::text is null or tenant = $1::text
order by tenant, kind
