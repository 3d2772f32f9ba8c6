-- List what the witness said about versions, and how long ago it was asked last.
-- returns: zero or more
-- roles: auditor, reconciler
-- index: none
-- locks: none
select w.definition_no, w.agreement, w.package, w.times, extract(epoch from ledger.machine_now() - w.asked_at)::float8 as age_seconds
from ledger.witnessed w
order by w.definition_no
