-- List what the witness said about versions when it was asked last, and how long ago that was.
-- returns: zero or more
-- roles: reconciler
-- index: none
-- locks: none
select w.definition_no, w.agreement, w.package, w.times, extract(epoch from ledger.machine_now() - w.asked_at)::float8 as age_seconds
from ledger.witnessed w
order by w.definition_no
