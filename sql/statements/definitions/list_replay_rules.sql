-- List every kind with its topic, whether no item of it may be worked twice, and whether its items never go through Kafka.
-- returns: zero or more
-- roles: auditor, reconciler
-- index: none
-- locks: none
select k.tenant, k.name as kind, k.topic, k.no_replay, k.dispatch = 'direct' as is_direct
from ledger.kind k
