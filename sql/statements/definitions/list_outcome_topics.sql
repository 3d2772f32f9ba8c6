-- List the topics that definitions name for the outcomes of their kinds.
-- returns: zero or more
-- roles: outcome_intake
-- index: none
-- locks: none
select distinct k.outcome_topic
from ledger.kind k
where k.outcome_topic is not null and k.settled_by = 'topic'
order by k.outcome_topic
limit 10000
