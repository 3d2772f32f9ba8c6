-- List the shortest queue deadline of the kinds of each of these topics.
-- returns: zero or more
-- roles: worker
-- $1 topics text[]
-- index: none
-- locks: none
select k.topic, min(k.queue_seconds) as queue_seconds
from ledger.kind k
where k.topic = any ($1::text[])
group by k.topic
