-- Find work topics whose kinds name different codecs, with a kind of each of two.
-- returns: zero or more
-- roles: operator
-- $1 topics text[]
-- index: none
-- locks: none
select k.topic, min(k.tenant || '/' || k.name) as kind, max(k.tenant || '/' || k.name) as other
from (
  select distinct on (k.topic, k.compression) k.topic, k.compression, k.tenant, k.name
  from ledger.kind k
  where k.topic = any ($1::text[]) and k.dispatch = 'kafka'
  order by k.topic, k.compression, k.tenant, k.name
) k
group by k.topic
having count(*) > 1
order by k.topic
