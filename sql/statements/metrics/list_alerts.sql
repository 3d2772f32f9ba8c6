-- List the alerts that were found and did not end, or whose end was not sent to each channel.
-- returns: zero or more
-- roles: alerter, auditor
-- index: none
-- locks: none
select a.name, a.labels, a.value, a.since, a.ended_at, a.sent_to, a.end_sent_to
from ledger.alert a
order by a.name, a.labels
limit 1000
