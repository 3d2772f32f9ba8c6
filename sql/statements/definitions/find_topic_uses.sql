-- Find topics that kinds use for something else: work topics that have outcomes, and topics of outcomes that have work.
-- returns: zero or more
-- roles: operator
-- $1 work_topics text[]
-- $2 outcome_topics text[]
-- index: none
-- locks: none
select distinct on (u.topic) u.topic, u.kind
from (
  select k.outcome_topic as topic, k.tenant || '/' || k.name as kind from ledger.kind k where k.outcome_topic = any ($1::text[])
  union all
  select k.topic, k.tenant || '/' || k.name from ledger.kind k where k.topic = any ($2::text[])
) u
order by u.topic, u.kind
